#!/bin/bash
# ranks.sh COMMAND - several ranks as a user has them: the same weights as one rank, one message for a failure, nothing left behind by any death.
source "$(dirname "$0")/common.sh"

cat >small.yaml <<END
model: {type: mlp, hidden: [32]}
data: {type: shapes}
train: {epochs: 1, steps: 30, global_batch: 64, micro_batch: 16}
threads: 1
END
sed 's/steps: 30/steps: 10000000/; s/epochs: 1/epochs: 100000/' small.yaml >long.yaml

# ---- the same bits
weights() { sha256sum <"runs/$1/checkpoints/latest/model.safetensors"; }
try 0 train small.yaml --set run.name=one
for n in 2 4; do
    try 0 train small.yaml --workers $n --set run.name=ranks$n
    [ "$(weights one)" = "$(weights ranks$n)" ] || bad "$n ranks end with other weights than one"
    [ "$(ls runs/ranks$n/log | grep -c 'rank-[0-9]*.log')" -eq $n ] || bad "not a log for each of $n ranks"
    [ "$(grep -c '"kind":"step"' runs/ranks$n/metrics.jsonl)" -eq 30 ] || bad "$n ranks: metrics.jsonl has not 30 steps"
    once err "step +1/30"; once err "first step after"
    has runs/ranks$n/log/rank-1.log "step +1/30"
done
has runs/ranks2/result.json '"state":"finished"'
try 0 train small.yaml --workers 2 --set run.name=ranks2; once err "nothing to do"
try 0 train small.yaml --workers "{min: 1, max: 2}" --set run.name=range
try 0 train small.yaml --workers 2 --dry-run --set run.name=dry; once err "dry run"
[ ! -e runs/dry ] || bad "a dry run wrote something"
try 0 train small.yaml --workers 2 --profile 2:3 --set run.name=profile; once out "^ *op |op .*time|share"
[ -s runs/profile/log/rank-0.trace.json ] && [ -s runs/profile/log/rank-1.trace.json ] || bad "not a trace of each rank"

# ---- evaluated by any number of ranks: the same sums
try 0 eval runs/one --json; sed 's/,"seconds.*//' out >alone
for n in 2 3; do
    try 0 eval runs/one --workers $n --json; sed 's/,"seconds.*//' out >together
    cmp alone together || bad "$what: another result than one rank's"
done
try 0 eval runs/ranks4; once out "^loss " # by one process: nothing asks for more
try 2 eval runs/one --workers 0; once err "error:"
try 1 eval runs/one --workers 2 --set model.hidden=[16]; once err "error: rank [01]: .*hidden|error: rank [01]: .*shape"
try 2 predict runs/one --workers 2; once err "one process"

# ---- refused before or by all ranks, in one message
try 2 train small.yaml --workers 2 --set parallel.mesh="{dp: 3}" --set run.name=wrong; has err "3"; once err "error:"
try 2 train small.yaml --workers 3 --set run.name=wrong; once err "error:"; has err "global_batch|micro"
try 2 train small.yaml --workers 2 --set parallel.units=pattern:nothing.like.it --set run.name=wrong; once err "error:"; has err "nothing.like.it"
try 2 train small.yaml --workers 2 --set model.init=no/such.safetensors --set run.name=wrong; once err "error: --set model.init: no/such.safetensors: no such file"
echo junk >junk.safetensors
try 1 train small.yaml --workers 2 --set model.init=junk.safetensors --set run.name=wrong; once err "error: --set model.init: junk.safetensors: "
[ ! -e runs/wrong ] || bad "a refused run left a folder"

# ---- a run in the background: until the ranks have made steps. parent: its process; ranks: theirs
begin() {
    rm -rf runs/long
    "$lockstep" train long.yaml --workers 2 --set run.name=long "$@" >out 2>err </dev/null &
    parent=$!
    what="long run"
    until_true grep -q '"step":3,' runs/long/metrics.jsonl
    ranks=$(xargs <"/proc/$parent/task/$parent/children")
    [ "$(echo $ranks | wc -w)" -eq 2 ] || { bad "the parent has not two children: '$ranks'"; cat err; }
    for p in $ranks; do # what they share has no name that could stay behind
        grep -q "/memfd:lockstep (deleted)" "/proc/$p/maps" && ! grep -q " /dev/shm/" "/proc/$p/maps" || bad "$what: process $p shares memory that has a name"
    done
}
# A process that has ended, or is only a corpse that nobody has taken away yet.
gone() { local state; state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null); [ -z "$state" ] || [ "$state" = Z ]; }
# ended STATUS: the parent ends with this status, and the ranks before it. (None of the deadlines of 300 s has passed: the test would run into its own.)
ended() {
    local before=$SECONDS
    wait $parent; got=$?
    [ $got -eq "$1" ] || { bad "$what: exit status $got instead of $1"; cat err; }
    [ $((SECONDS - before)) -le 120 ] || bad "$what: took $((SECONDS - before)) s to end"
    for p in $ranks; do gone "$p" || bad "$what: process $p is left"; done
}

for victim in 1 2; do
    begin
    set -- $ranks
    what="SIGKILL of rank $((victim - 1))"
    sleep 0.0$((RANDOM % 10))
    kill -9 "${!victim}"
    ended 1
    once err "error:"
    has err "error: rank $((victim - 1)): killed by signal 9 \(SIGKILL\); it last did: .*; the other ranks were stopped"
done
has runs/long/result.json '"state":"failed"'
has runs/long/log/rank-0.log "rank 1: killed by signal 9"

begin --set failure.stall_seconds=2
set -- $ranks
what="SIGSTOP of rank 1"
kill -STOP $2
ended 1
once err "error: rank 1: did not come within 2 s"
has err "rank 0 waited for it in "

# The parent says in next.txt what it starts when the ranks have stopped: a request to stop is for that, --until and the end of the time are not.
next() { echo -n "9 workers on hosts a, b" >runs/long/next.txt; }
begin; next; kill -TERM $parent; ended 75
once err "^stopped after step [0-9]+ of 10000000 to go on with 9 workers on hosts a, b; everything is saved in runs/long/checkpoints/latest$"
[ ! -e runs/long/next.txt ] || bad "$what: next.txt is not taken away"
begin --until 5000; next; ended 75
once err "^stopped after step 5000 of 10000000 on request; "; [ -e runs/long/next.txt ] || bad "$what: --until takes next.txt away"
begin --set run.time_limit=8; next; ended 75
once err "^stopped after step [0-9]+ of 10000000 -?[0-9.]+ s (before|after) the end of run.time_limit"; [ -e runs/long/next.txt ] || bad "$what: the limit of time takes next.txt away"

what="one rank, stopped before it joins: no other waits for it"
LOCKSTEP_NOTICE=0.5 LOCKSTEP_FAULT=stop@join:rank=0 "$lockstep" train small.yaml --workers 1 --set failure.max_failures=1 --set failure.stall_seconds=1.5 \
    --set run.name=unborn >out 2>err </dev/null || bad "$what: fails"
once err "^warning: waiting for rank 0: its process [0-9]+ is stopped \(state T\), for [0-9]+ s; it had not joined the group$"
once err "^warning: rank 0: did not come within 1.5 s; it had not joined the group; it is stopped \(state T\); restart 1 of 1"

# One that does not come is named long before the wait fails; when it comes, that is said too. Of rank 0 rank 1 speaks. On a crowded machine the ranks wait for
# each other at the start, and then only a longer wait is worth a word: so the delay grows until it is noticed.
for slow in 0 1; do
    other=$((1 - slow)) what="rank $slow is slow"
    for seconds in 2 10 40; do
        rm -rf runs/slow$slow
        LOCKSTEP_NOTICE=0.5 LOCKSTEP_FAULT=delay@40:rank=$slow:seconds=$seconds "$lockstep" train small.yaml --workers 2 --set run.name=slow$slow >out 2>err </dev/null || bad "$what: fails"
        grep -q "^warning: waiting for rank $slow: .*; it last did: step [0-9]" err && break
    done
    has err "^warning: waiting for rank $slow: rank $other has waited .* for it in .*; it last did: step [0-9]"
    once err "^rank $slow goes on: rank $other waited ($((seconds - 1))|$seconds)"
    has runs/slow$slow/log/rank-$other.log "warning waiting for rank $slow"
done

begin
what="kill -9 of the parent"
kill -9 $parent
wait $parent 2>/dev/null
for p in $ranks; do
    until_true gone "$p"
done

begin
what="SIGTERM"
kill -TERM $parent
ended 75
once err "stopped after step"
has runs/long/result.json '"state":"stopped"'
[ -s runs/long/checkpoints/latest/model.safetensors ] || bad "nothing was saved when stopped"
at=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' err)
[ "$(tail -n 3 runs/long/metrics.jsonl | grep -c "\"kind\":\"step\",\"step\":$at,")" -eq 1 ] || bad "the last row is not step $at"

begin
what="SIGTERM to everybody"
kill -TERM $ranks $parent
ended 75

finish
