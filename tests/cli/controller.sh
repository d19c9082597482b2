#!/bin/bash
# controller.sh COMMAND - the process above the ranks: requests to save and to stop, the end of its time, causes, another number of workers after a failure,
# what is not tried again, and who owns a run.
source "$(dirname "$0")/common.sh"
group=
cleanup() {
    cd /
    [ -z "$group" ] || { kill -9 $(cat "$group/cgroup.procs") 2>/dev/null; wait 2>/dev/null; rmdir "$group"; }
    rm -rf "$work"
}
trap cleanup EXIT

begin() { what="lockstep $*"; "$lockstep" "$@" >out 2>err </dev/null & parent=$!; } # in the background
ended() { wait $parent; local got=$?; [ $got -eq "$1" ] || { bad "$what: exit status $got instead of $1"; tail -n 20 err; }; }
child() { xargs <"/proc/$parent/task/$parent/children" | cut -d ' ' -f $(($1 + 1)); } # process of a rank
stands() { [ "$(sed 's/.*) //; s/ .*//' "/proc/$(child "$1")/stat")" = T ]; }       # LOCKSTEP_FAULT=stop... has come
has_saved() { [ "$(ls "runs/$1/checkpoints" | grep -c '^step-')" -ge "$2" ]; }
steps_of() { grep -c '"kind":"step"' "runs/$1/metrics.jsonl"; }
taken() { grep -q "^ShdPnd:[[:space:]]*0*$" "/proc/$parent/status"; } # no signal waits for the parent
has_steps() { [ "$(steps_of "$1")" -ge "$2" ]; }

cat >small.yaml <<END
model: {type: mlp, hidden: [32]}
data: {type: shapes}
train: {epochs: 1000000, steps: 200, global_batch: 64, micro_batch: 16}
eval: {every_epochs: 0}
checkpoint: {every_epochs: 0, every_steps: 50, keep: 50}
threads: 1
END
sed 's/steps: 200/steps: 10000000/; s/every_steps: 50/every_steps: 0/' small.yaml >long.yaml
try 0 train small.yaml --set run.name=whole

# ---- save and go on, asked of the parent, then of a rank; the second request to stop, while one rank hangs
for workers in 1 2; do
    run=asked$workers
    begin train long.yaml --workers $workers --set run.name=$run
    until_true has_steps $run 3
    kill -USR1 $parent
    until_true has_saved $run 1
    until_true has_steps $run $(($(steps_of $run) + 3))
    if [ $workers = 2 ]; then kill -USR1 "$(child 1)"; else kill -USR1 $parent; fi
    until_true has_saved $run 2
    until_true grep -q '"state":"running"' runs/$run/result.json
    kill -TERM $parent
    ended 75
    times 2 err "^saved after step [0-9]* of 10000000 on request: runs/$run/checkpoints/latest"
    times 1 err "^stopped after step [0-9]* of 10000000 on request"
    has runs/$run/result.json '"state":"stopped"'
    has runs/$run/log/rank-0.heartbeat.json '"doing":"stopped"'
done
LOCKSTEP_FAULT=stop@2000:rank=1 begin train small.yaml --workers 2 --set run.name=twice
until_true stands 1
ranks="$(child 0) $(child 1)"
kill -TERM $parent; until_true taken; kill -TERM $parent; kill -INT $parent; kill -HUP $parent; until_true taken
sleep 5.1; kill -0 $parent || bad "signals within five seconds of a request to stop end the process"
kill -INT $parent
ended 130
until_true free twice
for p in $ranks; do until_true test ! -e "/proc/$p/exe"; done
try 0 runs; has out "twice *died"
try 0 train small.yaml --set run.name=twice; has err "continues after step 150 of 200.*runs/twice died"; same twice

# ---- the time: one step is made in any case
try 75 train long.yaml --set run.name=time --set run.time_limit=0.001
times 1 err "^stopped after step 1 of 10000000 .* the end of run.time_limit \(0.001 s\); everything is saved"
try 75 train long.yaml --set run.name=time --set run.time_limit=0.001 --workers 2; times 1 err "^stopped after step 2 of 10000000 .* the end of run.time_limit"
try 75 train long.yaml --set run.name=time --set run.time_limit=2 --workers 2
times 1 err "^stopped after step [0-9]* of 10000000 [0-9.]* s (before|after) the end of run.time_limit \(2 s\)"
SLURM_JOB_END_TIME=$(($(date +%s) + 3)) try 75 train long.yaml --set run.name=time --set run.time_limit=1000
times 1 err "the end of the Slurm job \(SLURM_JOB_END_TIME\)"; has runs/time/result.json '"state":"stopped"'
SLURM_JOB_END_TIME=soon try 2 train long.yaml --set run.name=time; has err "SLURM_JOB_END_TIME=soon: seconds since 1970"

# ---- a rank 0 that is killed and not started again: the parent says in its place what happened; a worker alone says what it did, too
begin train long.yaml --workers 2 --set run.name=first
until_true has_steps first 3
kill -9 "$(child 0)"
ended 1
has runs/first/result.json '"state":"failed".*"error":"rank 0: killed by signal 9 \(SIGKILL\); it last did: step [0-9]*.*"data":"shapes'
has runs/first/report.html 'state failed">failed<'; has runs/first/report.html 'class="warn">rank 0: killed by signal 9'; has runs/first/report.html '<h2>Loss</h2>'
begin train long.yaml --set run.name=single --set failure.max_failures=1 --set checkpoint.every_steps=10
until_true has_saved single 1
kill -SEGV "$(child 0)"
until_true grep -q "continues after" err
has err "rank 0: killed by signal 11 \(SIGSEGV\); it last did: step [0-9]*; "
kill -TERM $parent; ended 75

# ---- as many workers as there are cores now, and fewer when the kernel had no memory for them (which a file says in its place)
set -- $(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | sed 's/-/ /' | while read -r a b; do seq "$a" "${b:-$a}"; done)
some=(train small.yaml --set "workers={min: 1, max: 2}" --set failure.max_failures=1)
if [ $# -ge 2 ]; then
    LOCKSTEP_FAULT=stop@2000:rank=1 begin "${some[@]}" --set run.name=fewer
    until_true stands 1
    taskset -pc "$1" $parent >/dev/null; kill -9 "$(child 1)"
    ended 0
    has err "rank 1: killed by signal 9 .*restart 1 of 1 in 0.5 s from step 150, .*, on 1 worker instead of 2"; same fewer
    has runs/fewer/result.json '"restarts":\[\{"attempt":1,"step":150,"steps_lost":[0-9]*,"workers":1,"cause":"rank 1'
    what="more workers"
    taskset -c "$1" "$lockstep" "${some[@]}" --set train.steps=10000000 --set run.name=more >out 2>err </dev/null & parent=$!
    until_true has_saved more 1
    taskset -pc "$1,$2" $parent >/dev/null; kill -9 "$(child 0)"
    until_true grep -q "continues after" err
    kill -TERM $parent; ended 75
    has err "restart 1 of 1 in 0.5 s from step [0-9]*.*, on 2 workers instead of 1"; has err "ranks +2 on 1 host"
    mkdir cgroup; echo 209715200 >cgroup/memory.max; printf 'oom 3\noom_kill 3\n' >cgroup/memory.events
    LOCKSTEP_CGROUP=cgroup LOCKSTEP_FAULT=stop@2000:rank=1 begin "${some[@]}" --set run.name=memory
    until_true stands 1
    printf 'oom 4\noom_kill 4\n' >cgroup/memory.events; kill -9 "$(child 1)"
    ended 0
    has err "rank 1: out of memory: the kernel killed it \(limit: 200 MiB; planned: [0-9.]* [KM]iB for each of 2 ranks\); use fewer workers, .*, on 1 worker instead of 2"
    same memory
else
    left_out "other numbers of workers: this machine has one core"
fi

# ---- the kernel's own word: a control group whose memory something else eats up, which it likes to kill less than ranks
find_group() {
    for group in /sys/fs/cgroup/memory/lockstep-$$ /sys/fs/cgroup/lockstep-$$; do
        mkdir "$group" 2>/dev/null || continue
        for limit in memory.limit_in_bytes memory.max; do [ -e "$group/$limit" ] && return; done
        rmdir "$group"
    done
    group=
    return 1
}
used() { cat "$group/memory.usage_in_bytes" "$group/memory.current" 2>/dev/null; }
eat() { echo $BASHPID >"$group/cgroup.procs" && head -c 300M /dev/zero | tail -c 300M >/dev/null; }
if [ "$(id -u)" = 0 ] && find_group; then
    what="a control group"
    (echo $BASHPID >"$group/cgroup.procs" && exec "$lockstep" train long.yaml --workers 2 --set run.name=group --set "model.hidden=[2048]" >out 2>err </dev/null) &
    parent=$!
    until_true has_steps group 2
    for r in 0 1; do echo 1000 >"/proc/$(child $r)/oom_score_adj"; done
    echo $(($(used) + 40000000)) >"$group/$limit"
    eat 2>/dev/null & eater=$!
    until_true grep -q "error:" err || kill -9 $parent
    ended 1
    has err "error: rank [01]: out of memory: the kernel killed it \(limit: [0-9.]* MiB; planned: [0-9.]* MiB for each of 2 ranks\)"
    has runs/group/result.json '"state":"failed".*"error":"rank [01]: out of memory'
    kill -9 $eater $(cat "$group/cgroup.procs") 2>/dev/null; wait $eater 2>/dev/null
    until_true rmdir "$group"; group=
else
    left_out "the kernel's own word on memory: no control group can be made here"
fi

# ---- what would come again: a program that cannot be executed any more, data, a disk that takes no more
cp "$lockstep" lockstep
what="without a program"
./lockstep train long.yaml --workers 2 --set run.name=gone --set failure.max_failures=5 >out 2>err </dev/null & parent=$!
until_true has_steps gone 3
chmod 644 lockstep; kill -9 "$(child 1)"
ended 1
times 1 err "restart"; times 1 err "error: rank [01] could not be started: ./lockstep cannot be executed: Permission denied"
has runs/gone/result.json '"state":"failed".*"error":"rank [01] could not be started'
often="--set failure.max_failures=5"
none="--set data.type=idx --set data.train_images=none --set data.train_labels=none --set data.eval_images=none --set data.eval_labels=none"
try 2 train small.yaml $often --set run.name=data $none; times 0 err "restart"; times 1 err "error: rank 0: .*none"
what="a full disk"
(trap '' XFSZ; ulimit -f 4096; exec "$lockstep" train small.yaml $often --set run.name=disk --set "model.hidden=[2048]" --set checkpoint.every_steps=1 >out 2>err </dev/null)
[ $? -eq 1 ] || bad "$what: another exit status than 1"
times 0 err "restart"; times 1 err "error: rank 0: .*checkpoints.*File too large"; has runs/disk/result.json '"state":"failed"'

# ---- one owner: a second command, and one on another host that cannot be seen from here
begin train long.yaml --workers 2 --set run.name=owned
until_true has_steps owned 3
"$lockstep" train long.yaml --workers 2 --set run.name=owned >out2 2>err2 </dev/null
[ $? -eq 2 ] || bad "two commands in one run directory"
times 1 err2 "error: rank 0: run runs/owned is being trained by another process \(host .*, process [0-9]*, started by process $parent\)"
! grep -q "does not say why" err2 || bad "the run of another process was to get the failure: $(cat err2)"
has runs/owned/result.json '"state":"running"'
kill -9 $parent; wait $parent 2>/dev/null
until_true free owned
echo "host elsewhere, process 1" >runs/owned/lock.txt
sed -i "s/\"time\":[0-9]*/\"time\":$(date +%s)/" runs/owned/result.json
try 2 train long.yaml --set run.name=owned; times 1 err "runs/owned belongs to host elsewhere, process 1, which wrote there .*remove runs/owned/lock.txt"
sed -i "s/\"time\":[0-9]*/\"time\":$(($(date +%s) - 100))/" runs/owned/result.json
try 75 train long.yaml --set run.name=owned --set run.time_limit=0.001; times 1 err "warning: runs/owned was left by host elsewhere, process 1, which did not end well"

finish
