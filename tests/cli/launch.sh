#!/bin/bash
# launch.sh COMMAND EXAMPLE - `lockstep launch` with a program of one's own (examples/custom_loop.c): the bits of one process, started again after a kill and
# a hang, stopped on request; and one message for whatever is wrong with the program.
example=$2
source "$(dirname "$0")/common.sh"
run="$example runs" # NAME follows
weights() { sha256sum <"runs/$1/checkpoints/latest/model.safetensors"; }
equal() { [ "$(weights whole)" = "$(weights "$1")" ] || bad "$what: other weights than of one process"; }
begin() { what="lockstep $*"; "$lockstep" "$@" >out 2>err </dev/null & parent=$!; }
ended() { wait $parent; local got=$?; [ $got -eq "$1" ] || { bad "$what: exit status $got instead of $1"; cat err; }; }
nobody_left() { ! pgrep -f "$work/none|runs $1\$" >/dev/null; }

# ---- the same bits; its words reach it, also those that look like options of launch
$run whole >out 2>err || bad "one process"
for ranks in 2 4; do
    try 0 launch --workers $ranks $run ranks$ranks; equal ranks$ranks
done
try 0 launch --workers 1:2 -- $run range; equal range
try 0 launch --workers 1 -- sh -c 'echo "$LOCKSTEP_RANK of $LOCKSTEP_RANKS:" "$@"' - --workers 3 --help; once out "^0 of 1: --workers 3 --help"
printf 'one\ntwo\n' >lines
"$lockstep" launch --workers 2 -- sh -c 'cat >read-$LOCKSTEP_RANK' <lines >out 2>err # the first rank reads what the command reads
cmp -s lines read-0 || bad "rank 0 does not read"
[ ! -s read-1 ] || bad "rank 1 reads what is rank 0's"

# ---- cores of a rank, ranks of a host
try 0 launch --workers 1 --cores-per-worker 1 -- grep Cpus_allowed_list /proc/self/status; once out "^Cpus_allowed_list:[[:space:]]*[0-9]+$"
refused 2 "^error: workers: 1 of 9999 cores each \(cores_per_worker\) need 9999, and this command may use [0-9]+$" launch --workers 1 --cores-per-worker 9999 true
refused 2 "^error: workers: 2 on one host, and workers_per_host is 1: --hosts names others$" launch --workers 2 --workers-per-host 1 true
cat >small.yaml <<END
model: {type: mlp, hidden: [32]}
data: {type: shapes}
train: {epochs: 1, steps: 3, global_batch: 64, micro_batch: 16}
END
try 0 train small.yaml --cores-per-worker 1 --set run.name=bound; once err "^model .*, 1 thread \(cores_per_worker\)$"; once err "^ranks +1 on 1 host"
try 0 train small.yaml --workers "{min: 1, max: 2}" --workers-per-host 1 --set run.name=few; times 0 err "^ranks +2"
refused 2 "^error: workers: 2 of 4096 cores each" train small.yaml --workers 2 --cores-per-worker 4096 --set run.name=wrong
refused 2 "^error: workers: 2 on one host, and workers_per_host is 1" train small.yaml --workers 2 --workers-per-host 1 --set run.name=wrong
[ ! -e runs/wrong ] || bad "a refused run left a folder"

# ---- killed, and hanging: named with what it did; started again if that is allowed
LOCKSTEP_FAULT=kill@600:rank=1 try 1 launch --workers 2 -- $run killed
once err "^error: rank 1: killed by signal 9 \(SIGKILL\); it last did: step [0-9]+, .*; the other ranks were stopped$"
until_true nobody_left killed
LOCKSTEP_FAULT=kill@600:rank=1 try 0 launch --workers 2 --max-failures 1 -- $run again; equal again
once err "^warning: rank 1: killed by signal 9 .*; restart 1 of 1 in 0.5 s from step [0-9]+$"; times 0 err "^error:"
# as of train: in its rows, its result, its log and its page, and in what the command shows
has runs/again/metrics.jsonl '"kind":"restart","step":[0-9]+,"steps_lost":0,"workers":2,"cause":"rank 1: killed by signal 9 .*"pause":0.5,"attempt":1\}$'
has runs/again/result.json '"state":"finished","attempt":1,.*"restarts":\[\{"attempt":1,"step":[0-9]+,"steps_lost":0,"workers":2,"cause":"rank 1: killed by'
has runs/again/log/rank-0.log "restart 1 of 1"
has runs/again/report.html "killed by signal 9"
try 0 runs --json; has out '"name":"again",.*"restarts":1,'
try 0 watch runs/again --once; has out "^step [0-9]+ +attempt 1 continues, 0 steps repeated: rank 1: killed by signal 9"
LOCKSTEP_FAULT=kill@50:rank=0 try 1 launch --workers 2 --max-failures 1 -- $run twice
once err "^error: rank 0: killed by signal 9 .*; that was failure 2, and --max-failures is 1$"
once err "restart 1 of 1 in 0.5 s from step 0$"
has runs/twice/result.json '"state":"failed","attempt":1,.*"restarts":\[\{"attempt":1[^]]*\}\],"error":"rank 0: killed .*that was failure 2'
has runs/twice/report.html 'state failed">failed<'; has runs/twice/report.html 'class="warn">rank 0: killed'
try 1 launch --workers 1 --max-failures 3 -- sh -c 'kill -9 $$' # each pause is twice as long as the one before
for pause in "1 of 3 in 0.5 s" "2 of 3 in 1 s" "3 of 3 in 2 s"; do once err "^warning: rank 0: killed by signal 9 .*; restart $pause$"; done
LOCKSTEP_FAULT=stop@600:rank=1 try 0 launch --workers 2 --max-failures 1 --stall-seconds 2 -- $run hangs; equal hangs
once err "^warning: rank 1: did not come within 2 s; rank 0 waited for it in .*it is stopped.*; restart 1 of 1"

# ---- stopped on request: by a program that handles it, by one that does not
for attempt in $(seq 20); do # on a busy machine it may be done before the request comes
    begin launch --workers 2 --max-failures 3 -- $run stopped-$attempt
    while [ ! -e runs/stopped-$attempt/checkpoints/latest ] && kill -0 $parent 2>/dev/null; do sleep 0.01; done
    kill -TERM $parent 2>/dev/null
    wait $parent; got=$?
    [ $got -eq 0 ] || break
done
what="SIGTERM"
[ $got -eq 75 ] || bad "$what: exit status $got instead of 75"
times 0 err "^error:|^warning:"; has err "stopped after epoch"
try 0 launch --workers 4 -- $run stopped-$attempt; equal stopped-$attempt
for signal in INT HUP USR2; do # also when all its processes get it
    begin launch --workers 2 --max-failures 3 -- sleep 1000
    until_true pgrep -P $parent -x sleep >/dev/null
    kill -$signal $(pgrep -P $parent -x sleep) $parent; ended 75
    once err "^stopped on request: sleep has no handler for SIGTERM, which ended it; "
done
begin launch --workers 2 -- sh -c 'trap "exit 143" TERM; touch ready-$LOCKSTEP_RANK; while :; do sleep 0.1; done' # as a shell reports that signal
until_true test -e ready-0 -a -e ready-1
kill -TERM $parent; ended 75; times 0 err "^error"
begin launch --workers 2 -- sleep 1001
until_true pgrep -P $parent -x sleep >/dev/null
kill -USR1 $parent; until_true grep -q "^warning: SIGUSR1 is not passed on: sleep has no handler for it" err
kill -9 $parent; wait $parent 2>/dev/null
until_true eval '! pgrep -x -f "sleep 1001" >/dev/null' # nothing is left

# ---- what is wrong with a program
refused 2 "^error: lockstep launch needs --workers N" launch $run none
refused 2 "^error: --workers two: a number of ranks" launch --workers two $run none
refused 2 "^error: --workers 9999999999: a number of ranks from 1 to 1000000" launch --workers 9999999999 $run none
refused 2 "^error: lockstep launch needs \[--\] PROGRAM" launch --workers 2
refused 2 "^error: lockstep launch has no option --worker; did you mean --workers" launch --worker 2 $run none
refused 2 "^error: the program $work/none is not there: No such file" launch --workers 2 "$work/none"
refused 2 "^error: the program lockstep-none is in no folder of PATH$" launch --workers 2 lockstep-none
refused 2 "^error: the program $work is a directory" launch --workers 2 "$work"
echo "exit 0" >here
refused 2 "^error: the program ./here cannot be executed: Permission denied \(chmod \+x ./here\)" launch --workers 2 ./here
refused 2 "^error: the program here is in no folder of PATH; for the one in this folder write ./here" launch --workers 2 here
chmod +x here
head -c 100 /dev/urandom >noise; chmod +x noise
refused 1 "^error: rank [01] could not be started: ./noise cannot be executed: Exec format error$" launch --workers 2 --max-failures 5 ./noise
refused 2 "^error: the 2 processes of true ended well, but none joined the group: " launch --workers 2 --max-failures 5 true
try 0 launch --workers 1 true
refused 1 "^error: rank [01]: ended with status 3 and no message; it had not joined the group; the other ranks were stopped$" launch --workers 2 -- sh -c 'exit 3'
one_of() { echo "[ \$LOCKSTEP_RANK = 1 ] && exec $1; exec $run none"; }
refused 2 "^error: rank 1: ended with status 0 and never joined the group that rank 0 has joined: " launch --workers 2 -- sh -c "$(one_of true)"
refused 1 "^error: rank 1: did not come within 2 s; rank 0 waited for it in .*; it had not begun to work$" \
    launch --workers 2 --stall-seconds 2 -- sh -c "$(one_of "sleep 1000")"
begin launch --workers 2 --stall-seconds 0.2 -- sleep 1000
until_true grep -q "^warning: no rank of sleep has joined the group within 0.2 s: does it call ls_group_from_environment" err
kill -TERM $parent; ended 75
finish
