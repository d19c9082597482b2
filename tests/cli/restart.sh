#!/bin/bash
# restart.sh COMMAND - failure.max_failures: ranks that were killed or hang are started again and end with the files of a run that nothing disturbed;
# what would come again is not tried again.
source "$(dirname "$0")/common.sh"

# try STATUS FAULT ARGS...: runs the command with this LOCKSTEP_FAULT in every attempt, keeps ./out and ./err
try() {
    local want=$1 fault=$2; shift 2
    what="$fault lockstep $*"
    if [ "$fault" = none ]; then "$lockstep" "$@" >out 2>err </dev/null; else LOCKSTEP_FAULT=$fault "$lockstep" "$@" >out 2>err </dev/null; fi
    local got=$?
    [ $got -eq "$want" ] || { bad "$what: exit status $got instead of $want"; cat err; }
}

cat >small.yaml <<END
model: {type: mlp, hidden: [32]}
data: {type: shapes}
train: {epochs: 1000000, steps: 200, global_batch: 64, micro_batch: 16}
checkpoint: {every_epochs: 0, every_steps: 50}
threads: 1
END
sed 's/steps: 200/steps: 10000000/' small.yaml >long.yaml
try 0 none train small.yaml --set run.name=whole
two="train small.yaml --workers 2 --set failure.max_failures=1"

# ---- killed somewhere after step 150: a step of 2 ranks has 12 calls, and the rest from there with the evaluation some 1250, so the fault does not come again
for rank in 0 1; do
    call=$((1840 + RANDOM % 400))
    try 0 "kill@$call:rank=$rank" $two --set run.name=killed$rank --resume never
    same killed$rank
    times 1 err "warning: "; times 0 err "error:"
    has err "rank $rank: killed by signal 9 \(SIGKILL\); it last did: step 1.*; restart 1 of 1 in 0.5 s from step 150"
    has err "continues after step 150 of 200"
    has runs/killed$rank/metrics.jsonl '"kind":"restart","step":150,"steps_lost":[0-9]*,"workers":2,"cause":"rank '$rank': killed by signal 9 .*"pause":0.5,"attempt":1'
    has runs/killed$rank/result.json '"restarts":\[\{"attempt":1,"step":150,"steps_lost":[0-9]*,"workers":2,"cause":"rank '$rank': killed'
    has runs/killed$rank/log/rank-0.log "restart 1 of 1"
    lost=$(sed -n 's/.*"steps_lost":\([0-9]*\).*/\1/p' runs/killed$rank/metrics.jsonl)
    rows=$(grep -c '"kind":"step"' runs/killed$rank/metrics.jsonl)
    [ $rows -eq $((200 + lost)) ] || bad "$what: $rows rows of steps, but $lost were lost"
done
try 0 none runs; times 2 out "%  .*  1  step-00000200"
try 0 none $two --set run.name=killed0; has err "nothing to do"; has runs/killed0/result.json '"attempt":1,.*"restarts":\[\{' # nothing was forgotten

# ---- before the first checkpoint, and before there was a run
try 1 "kill@300:rank=1" $two --set run.name=early --set checkpoint.every_steps=0
has err "restart 1 of 1 in 0.5 s from step 0, [0-9]* steps are computed again"
has err "runs/early is restarted before its first checkpoint: it starts from the beginning"
times 1 err "error: "; has err "error: rank 1: killed .*that was failure 2, and failure.max_failures is 1"
has runs/early/result.json '"state":"failed".*"restarts":\[\{"attempt":1[^]]*\}\],"error":"rank 1: killed .*that was failure 2'
try 1 "kill@0:rank=0" $two --set run.name=never
times 1 err "warning: "; has err "restart 1 of 1 in 0.5 s from step 0$"
try 0 none $two --set run.name=never; same never

# ---- one that hangs; one worker under a parent of its own
try 0 "stop@1900:rank=1" $two --set run.name=hangs --set failure.stall_seconds=2
has err "rank 1: did not come within 2 s.*restart 1 of 1"; same hangs
"$lockstep" train long.yaml --set run.name=alone --set failure.max_failures=1 >out 2>err </dev/null &
parent=$! what="one worker"
until_true test -e runs/alone/checkpoints/latest
kill -SEGV $(xargs <"/proc/$parent/task/$parent/children")
until_true grep -q "continues after" err
kill -TERM $parent; wait $parent; got=$?
[ $got -eq 75 ] || bad "$what: exit status $got instead of 75"
has err "rank 0: killed by signal 11 \(SIGSEGV\).*restart 1 of 1"; has err "continues after step"

# ---- what would come again
try 2 none $two --set run.name=wrong --set parallel.units=pattern:nothing.like.it; times 0 err restart; has err "nothing.like.it"
try 1 none $two --set run.name=nan --set optimizer.type=sgd --set optimizer.lr=1e6; times 0 err "restart"; has err "NaN|nan|finite|inf"
[ ! -e runs/wrong ] || bad "a refused run left a folder"

# ---- stopped while it waits; then it may go on
LOCKSTEP_FAULT=kill@300:rank=1 "$lockstep" train small.yaml --workers 2 --set run.name=waits --set failure.max_failures=-1 >out 2>err </dev/null &
parent=$! what="stopped while it waits"
until_true grep -q "restart 2 in 1 s" err
kill -TERM $parent; wait $parent; got=$?
[ $got -eq 75 ] || { bad "$what: exit status $got instead of 75"; cat err; }
times 1 err "stopped on request before restart 2; start it again to continue from step 0"
has runs/waits/result.json '"state":"stopped".*"error":null'
try 0 none $two --set run.name=waits; same waits; has runs/waits/result.json '"attempt":2'

finish
