#!/bin/bash
# slurm.sh COMMAND - a real Slurm of four virtual nodes (slurm_cluster.sh): ranks that srun starts, a job that is cancelled, time limits with and without
# --signal, a job that is requeued until it is done, a job array, a node that dies under --no-kill or --requeue, or is back at once, refusals. Exit status 77: not possible here.
here=$(cd "$(dirname "$0")" && pwd)
source "$here/alone.sh"
alone "slurm-wlm munge iproute2" "munged slurmctld slurmd srun sbatch" "$@"
source "$here/slurm_cluster.sh"
source "$here/common.sh"
trap 'cluster_down; wait 2>/dev/null; cd /; rm -rf "$work"' EXIT
patience=300 # seconds: nodes and jobs take tens of seconds to notice each other where nine processes share two cores
what="a cluster of four nodes"
cluster_up 4 || { bad "$what does not start"; tail -n 5 ./*.log munge/log; exit 1; }
export OMPI_MCA_btl=tcp,self OMPI_MCA_mpi_yield_when_idle=1 lockstep

cat >small.yaml <<END
model: {type: mlp, hidden: [32]}
data: {type: shapes}
train: {epochs: 1000000, steps: 300, global_batch: 64, micro_batch: 16}
eval: {every_epochs: 0}
checkpoint: {every_epochs: 0, every_steps: 20, keep: 3}
threads: 1
END
sed 's/steps: 300/steps: 10000000/; s/every_steps: 20/every_steps: 0/' small.yaml >long.yaml
"$lockstep" train small.yaml --set run.name=whole >out 2>err || bad "one process"

# start.sh OPTIONS... COMMAND...: `srun --mpi=pmix`. Open MPI 4.1 with PMIx 4.2 and Slurm 22.05 loses a start now and then where CPUs are crowded: rank 0 gets
# a message while it is in MPI_Init, and calls a handler that is not there yet. Five lines of MPI do the same (docs/ranks.md), so such a start, and no other, is
# repeated. What tee reads outlives the signals of a batch system.
cat >start.sh <<'END'
#!/bin/bash
said=said.$SLURM_JOB_ID.$$
trap : TERM HUP INT USR1 USR2 # srun gets them too, and its status is the one that counts
for attempt in 1 2 3; do
    srun --mpi=pmix --wait=20 "$@" 2> >(trap '' TERM HUP INT USR1 USR2; exec tee "$said" >&2)
    status=$?
    wait $!
    [ $status = 139 ] && grep -q "Failing at address: (nil)" "$said" && ! grep -q "^data \|^ranks \|^error" "$said" || exit $status
    echo "start.sh: attempt $attempt of 3 died in MPI_Init"
done
exit $status
END
chmod +x start.sh

# submit NAME OPTIONS...: the script on stdin becomes a job; its output is NAME.out, its number $job
submit() {
    local name=$1; shift
    { echo '#!/bin/bash'; cat; } >"$name.sh"
    job=$(on ctl sbatch --parsable --job-name="$name" --output="$name.out" --open-mode=append "$@" "$name.sh") || bad "$name: sbatch"
}
state_of() { on ctl scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }
over() { case $(state_of "$1") in PENDING | RUNNING | COMPLETING | SUSPENDED | REQUEUED) false ;; esac; }
has_steps() { [ "$(grep -c '"kind":"step"' "runs/$1/metrics.jsonl")" -ge "$2" ]; }
stopped() { # NAME WHY: with a checkpoint of its last step
    what=$1
    until_true grep -q "^stopped after step" "$1.out"
    until_true grep -q '"state":"stopped"' "runs/$1/result.json"
    once "$1.out" "^stopped after step [0-9]+ of 10000000 $2; everything is saved in runs/$1/checkpoints/latest"
    local step; step=$(sed -n 's/^stopped after step \([0-9]*\) .*/\1/p' "$1.out")
    [ "$(readlink "runs/$1/checkpoints/latest")" = "$(printf 'step-%08d' "$step")" ] || bad "$1: the checkpoint is not of step $step: $(readlink "runs/$1/checkpoints/latest")"
    times 0 "$1.out" "^error|^warning"
}

# ---- what takes a minute, side by side: the time limit, of which Slurm tells by SIGTERM, SIGCONT, SIGTERM; by the same to a parent and its srun; which the
# ranks know beforehand; a signal long before it, and requeued until the run is done
slow=LOCKSTEP_FAULT=delay@random:seconds=0.05
submit limit --time=1 -N2 --ntasks-per-node=2 -w n1,n2 <<END
SLURM_JOB_END_TIME=4000000000 $slow ./start.sh "$lockstep" train long.yaml --set run.name=limit
END
submit parent --time=1 -N2 --ntasks-per-node=1 -w n1,n2 <<END
SLURM_JOB_END_TIME=4000000000 $slow "$lockstep" train long.yaml --hosts slurm --set run.name=parent
END
submit knows --time=1 -N2 --ntasks-per-node=1 -w n1,n2 <<END
$slow ./start.sh "$lockstep" train long.yaml --set run.name=knows
END
submit requeued --time=3 -N2 --ntasks-per-node=2 -w n1,n2 --signal=TERM@155 --requeue <<'END'
[ -n "$SLURM_RESTART_COUNT" ] || export LOCKSTEP_FAULT=delay@random:seconds=0.5
./start.sh "$lockstep" train small.yaml --set run.name=requeued
status=$?
[ $status = 75 ] && scontrol requeue "$SLURM_JOB_ID"
exit $status
END
requeued=$job

# ---- the bits of one process; signals of scancel
submit srun -N2 --ntasks-per-node=2 -w n3,n4 <<'END'
./start.sh "$lockstep" train small.yaml --set run.name=srun
echo "status $?"
END
until_true grep -q "^status" srun.out
what="srun"; has srun.out "^status 0$"; once srun.out "^ranks +4 on 2 hosts \(mpi\)"; same srun
for signal in TERM HUP USR2; do
    submit cancel-$signal -N2 --ntasks-per-node=1 -w n3,n4 <<END
$slow ./start.sh "$lockstep" train long.yaml --set run.name=cancel-$signal
echo "status \$?"
END
    until_true has_steps cancel-$signal 3
    if [ $signal = TERM ]; then
        on ctl scancel --signal=USR1 "$job"; until_true grep -q "^saved after step" cancel-TERM.out
        on ctl scancel "$job"
    else
        on ctl scancel --signal=$signal "$job"; on ctl scancel --signal=$signal "$job"
        until_true grep -q "^status 75$" cancel-$signal.out
    fi
    stopped cancel-$signal "on request"
    submit parent-$signal -N2 --ntasks-per-node=1 -w n3,n4 <<END
$slow "$lockstep" train long.yaml --hosts slurm --set run.name=parent-$signal
END
    until_true has_steps parent-$signal 3
    on ctl scancel --signal=$signal "$job"
    stopped parent-$signal "on request"
done

# ---- a rank that is stopped before it joins is named by its host, and those of the other host say that ranks have not come
submit hangs -N2 --ntasks-per-node=2 -w n3,n4 <<'END'
LOCKSTEP_NOTICE=2 LOCKSTEP_FAULT=stop@join:rank=3 ./start.sh "$lockstep" train small.yaml --set run.name=hangs
echo "status $?"
END
what="srun, a rank that is stopped"
until_true grep -q "^warning: waiting for rank 3: its process [0-9]* on host n4 is stopped (state T); it had not joined the group$" hangs.out
until_true grep -q "^warning: waiting in MPI_Init for [0-9]* s: the 2 ranks of host n3 are here, ranks of other hosts have not come: " hangs.out
kill -CONT $(ip netns pids n4)
until_true grep -q "^status" hangs.out
has hangs.out "^status 0$"; times 0 hangs.out "waiting for rank [012]:"; same hangs

# ---- what is wrong is said once, whatever the number of hosts
submit refused -N2 --ntasks-per-node=2 -w n3,n4 <<'END'
srun --mpi=none "$lockstep" train small.yaml --set run.name=refused 2>bare
./start.sh -N2 -n3 "$lockstep" train small.yaml --set run.name=refused 2>uneven
./start.sh "$lockstep" train small.yaml --set run.name=refused --set modell.type=mlp 2>key
"$lockstep" train small.yaml --set run.name=refused --hosts slurm --set parallel.units=pattern:nothing 2>units
echo done
END
until_true grep -q "^done" refused.out
what="refused"
refuses() { once "$1" "^error: $2"; times 1 "$1" "^error:"; }
refuses bare "srun started 4 tasks that cannot reach each other: use srun --mpi=pmix"
refuses uneven "[12] \+ [12] ranks on the hosts: each host needs as many as the others"
refuses key "rank [0-3]: --set modell.type: unknown key"
refuses units "rank [0-3]: --set parallel.units: pattern:nothing: "
[ ! -e runs/refused ] || bad "a refused run left a folder"
submit tasks -N2 -n3 -w n3,n4 <<'END'
"$lockstep" train small.yaml --set run.name=refused --hosts slurm
echo done
END
until_true grep -q "^done" tasks.out
what="three tasks on two hosts"; refuses tasks.out "--hosts slurm: the tasks of this job are distributed unevenly over its hosts \(SLURM_TASKS_PER_NODE=2,1\)"

# ---- a job array: each task is a run. The last task has the number of the whole array as its own, and asks Slurm for its hosts alone
submit array --array=1-2 -N1 --ntasks-per-node=2 -w n3 <<'END'
LOCKSTEP_FAULT=delay@random:seconds=0.02 "$lockstep" train small.yaml --hosts slurm --set run.name=array-$SLURM_ARRAY_TASK_ID 2>array-$SLURM_ARRAY_TASK_ID.err
echo "status $?"
END
both_over() { [ "$(grep -c "^status" array.out)" = 2 ]; }
until_true both_over
what="a job array"; times 2 array.out "^status 0$"
for task in 1 2; do same array-$task; once array-$task.err "^ranks +2 on 1 host"; times 0 array-$task.err "^error|^warning"; done

# ---- a node loses all of its processes and is back before Slurm has noticed: the run goes on on both. Slurm takes the old step for running; one attempt waits for it
submit returns --no-kill -N2 --ntasks-per-node=2 -w n3,n4 <<'END'
LOCKSTEP_FAULT=delay@random:seconds=0.05 "$lockstep" train small.yaml --hosts slurm --set run.name=returns --set failure.max_failures=3 --set failure.grow=true --set failure.stall_seconds=20
echo "status $?"
END
until_true has_steps returns 40
node_dies n4; node_up n4
until_true grep -q "^status" returns.out
what="a node that returns"
has returns.out "^status 0$"; same returns; times 0 returns.out "^error"; times 2 returns.out "^ranks +4 on 2 hosts"
once returns.out "^warning: failure.grow: true has no effect in a Slurm job: Slurm takes a host that fails out of the job "
once returns.out "^warning: .*Requested nodes are busy; that is not counted, because Slurm did not start all ranks; continues in "

# ---- a node dies: the run goes on on the other one, with the same bits
submit shrinks --no-kill -N2 --ntasks-per-node=2 -w n3,n4 <<'END'
LOCKSTEP_FAULT=delay@random:seconds=0.05 "$lockstep" train small.yaml --hosts slurm --set run.name=shrinks --set failure.max_failures=8
echo "status $?"
END
until_true has_steps shrinks 40
node_dies n4
until_true grep -q "^status" shrinks.out
what="a node that dies"
has shrinks.out "^status 0$"; same shrinks; times 0 shrinks.out "^error"
has shrinks.out "^warning: host n4 does not answer: it does not belong to Slurm job $job$"; once shrinks.out "^ranks +4 on 2 hosts"; once shrinks.out "^ranks +2 on 1 host"
has shrinks.out "^warning: .*; restart [1-8] of 8 in .* on 2 workers instead of 4$"

# ---- without --no-kill Slurm puts the job back into the queue (NODE_FAIL): it continues on other nodes, by itself
node_up n4; until_true node_is n4 idle
submit requeues --requeue -N2 --ntasks-per-node=1 --exclude=n1 <<'END'
[ -n "$SLURM_RESTART_COUNT" ] || export LOCKSTEP_FAULT=delay@random:seconds=0.2
./start.sh "$lockstep" train small.yaml --set run.name=requeues
echo "status $?"
END
until_true has_steps requeues 40
node_dies "$(on ctl squeue -h -j "$job" -o %N | xargs scontrol show hostnames | tail -n 1)" # n2 has jobs that the test waits for

# ---- the minute is over
stopped knows "-?[0-9.]+ s (before|after) the end of the Slurm job \((squeue|SLURM_JOB_END_TIME)\)"
stopped limit "on request"; has limit.out "DUE TO TIME LIMIT"
stopped parent "on request"
what="requeued" # more than once on a machine that has no time for us
for attempt in 1 2 3 4; do over "$requeued" || sleep 15; done
until_true over "$requeued"
has requeued.out "^stopped after step [0-9]+ of 300 on request"; has requeued.out "^continues after step"; same requeued
[ "$(state_of "$requeued")" = COMPLETED ] || bad "a finished run is a job that is $(state_of "$requeued")"
what="requeued after a node died"
until_true grep -q "^status 0" requeues.out
has requeues.out "^continues after step [0-9]+ of 300"; times 2 requeues.out "^ranks +2 on 2 hosts"; same requeues
has runs/requeued/result.json '"attempt":[1-9]'
finish
