#!/bin/sh
# mpi.sh MPIRUN COMMAND EXAMPLE CC ROOT [SANITIZERS] - training by ranks that mpirun starts, on pretend hosts: the same weights as one process; what a failure says.
set -eu
mpirun=$1 lockstep=$2 example=$3 cc=$4 root=$5 sanitize=${6:+-fsanitize=$6}
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-mpi-XXXXXX")
cd "$work"
trap 'cd /; rm -rf "$work"' EXIT
export LOCKSTEP_CACHE="$work/cache"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
unset LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_MPI_MODULE LOCKSTEP_FAKE_NODES
fails() { echo "mpi.sh: $*"; cat err 2> /dev/null; exit 1; }

cat > small.yaml << END
model: {type: vit, image_size: 28, patch_size: 7, in_channels: 1, layers: 2, heads: 2, hidden_size: 32, mlp_size: 32, classes: 10}
data: {type: shapes}
train: {steps: 6, global_batch: 32, micro_batch: 8, clip_norm: 0.5}
parallel: {units: "class:EncoderBlock"}
threads: 1
END
train() { # NAME HOSTS WORDS...: 4 ranks
    name=$1; shift
    export LOCKSTEP_FAKE_NODES="$1"; shift
    "$mpirun" -n 4 "$lockstep" train small.yaml --set run.name="$name" "$@" > out 2> err || fails "$name does not train"
    unset LOCKSTEP_FAKE_NODES
    cmp -s runs/one/checkpoints/latest/model.safetensors "runs/$name/checkpoints/latest/model.safetensors" || fails "$name ends with other weights than one process"
    [ "$(grep -c 'first step after' err)" = 1 ] || fails "$name: only rank 0 speaks"
}
"$lockstep" train small.yaml --set run.name=one > out 2> err || fails "one process does not train"
train fsdp 2
train one-rank-a-host 4 --set parallel.reshard_after_forward=2
train ddp 2 --set parallel.data=ddp
train hybrid 2 --set parallel.data=hybrid --set "parallel.mesh={dp: 2, shard: 2}" --set parallel.gather=copy

train stages-on-hosts 2 --set "parallel.mesh={pp: 2, dp: 2}" --set parallel.schedule=gpipe
train stages-in-hosts 2 --set "parallel.mesh={dp: 2, pp: 2}"

# tokens go to experts on other hosts and back, beside ranks on this one or not
for i in $(seq 30); do echo "line $i of a text, and no more than that"; done > lines.txt
cat > experts.yaml << END
model: {type: mixtral, layers: 1, heads: 2, kv_heads: 2, hidden_size: 16, mlp_size: 12, vocab_size: 258, experts: 4, experts_per_token: 2}
data: {type: text, train_text: lines.txt, documents: line, tokenizer: bytes, seq_length: 16}
train: {steps: 3, global_batch: 8, micro_batch: 2, clip_norm: 0.5}
parallel: {units: "class:MixtralDecoderLayer"}
eval: {every_epochs: -1}
threads: 1
END
"$lockstep" train experts.yaml --set run.name=experts > out 2> err || fails "one process does not train experts"
dealt() { # HOSTS MESH WORDS...: 4 ranks
    hosts=$1 mesh=$2; shift 2
    rm -rf runs/dealt
    LOCKSTEP_FAKE_NODES=$hosts "$mpirun" -n 4 "$lockstep" train experts.yaml --set run.name=dealt --set "parallel.mesh=$mesh" "$@" > out 2> err || fails "$mesh on $hosts hosts does not train"
    cmp -s runs/experts/checkpoints/latest/model.safetensors runs/dealt/checkpoints/latest/model.safetensors || fails "$mesh on $hosts hosts ends with other weights than one process"
}
dealt 2 "{ep: 4}" --set parallel.expert_room=3
dealt 4 "{dp: 2, ep: 2}"
dealt 2 "{ep: 4}" --set device=emulated
messages() { "$lockstep" plan experts.yaml --json --workers 4 --ranks-per-host 2 --set "parallel.mesh=$1" | grep -o '"messages_sent": *[0-9]*' | grep -o '[0-9]*$'; }
[ "$(messages '{ep: 4}')" -gt "$(messages '{dp: 2, ep: 2}')" ] || fails "plan does not count the messages to experts on other hosts"

LOCKSTEP_FAKE_NODES=2 "$mpirun" -n 4 "$lockstep" eval runs/one > out 2> err || fails "4 ranks on 2 hosts do not evaluate"
"$lockstep" eval runs/one > alone 2> err || fails "one process does not evaluate"
[ "$(grep -c '^loss' out)" = 1 ] && [ "$(sed 's/).*//' out)" = "$(sed 's/).*//' alone)" ] || fails "4 ranks on 2 hosts evaluate otherwise than one process"

# ranks that have different checkpoints under one name do not evaluate a mixture
"$lockstep" train small.yaml --set run.name=one --set run.seed=1 --set run.storage=other/runs > out 2> err || fails "another run does not train"
if "$mpirun" -n 2 sh -c "[ \$OMPI_COMM_WORLD_RANK = 0 ] || cd other; exec $lockstep eval runs/one" > out 2> err; then fails "two ranks evaluate a mixture"; fi
grep -q "^error: .*runs/one/checkpoints/[a-z0-9-]* is not the checkpoint that rank 0 has under this name: if the run is still trained, it has saved meanwhile, so start eval again$" err || fails "ranks with different checkpoints"

# several say what is wrong at once, or mpirun ends them first: it is said, and all end
if LOCKSTEP_FAKE_NODES=2 "$mpirun" -n 4 "$lockstep" train small.yaml --set run.name=wrong --set model.init=no/such.safetensors > out 2> err; then
    fails "weights that are not there"
fi
grep -q "no/such.safetensors" err || fails "which weights"
if "$mpirun" -n 2 "$lockstep" train small.yaml --set run.name=wrong --set failure.max_failures=1 > out 2> err; then
    fails "restarts of another launcher's ranks"
fi
grep -q "failure.max_failures: 1, but only the launcher that started these ranks" err || fails "who restarts"
[ ! -e runs/wrong ] || fails "a refused run left a folder"

# one that is killed is named, before mpirun ends the others, by the rank that missed it; rank 0, if it lives, writes down how the run stands
wait_for() { for _ in $(seq 5000); do "$@" 2> /dev/null && return; sleep 0.02; done; fails "waits in vain for $*"; }
nobody_left() { ! pgrep -f "$work" > /dev/null; }
export OMPI_MCA_odls_base_sigkill_timeout=3 # seconds that mpirun gives ranks to end, of which a busy machine may take the usual one
sed 's/steps: 6/epochs: 100000, steps: 10000000/' small.yaml > long.yaml
for hosts in 1 2; do
    if LOCKSTEP_FAKE_NODES=$hosts LOCKSTEP_FAULT="kill@140:rank=3" "$mpirun" -n 4 "$lockstep" train "$work/long.yaml" --set run.name=killed > out 2> err; then
        fails "a rank was killed, and nobody noticed"
    fi
    [ "$(grep -c '^error: rank 3: its process is gone; rank [012] waited for it in .*it last did: step' err)" = 1 ] || fails "a rank was killed: who?"
    wait_for nobody_left # of the others
    rm -r runs/killed
done

# killed before, while and after it saves, then continued on other pretend hosts: the same bits
sed 's/steps: 6/steps: 12/; s/^threads.*/&\ncheckpoint: {every_epochs: 0, every_steps: 3}/' small.yaml > kill.yaml
"$lockstep" train kill.yaml --set run.name=undisturbed > out 2> err || fails "one process does not train"
blows=0
for blow in LOCKSTEP_FAULT=kill@90:rank=1 LOCKSTEP_FAULT=kill@170:rank=0 LOCKSTEP_FAIL=any@150:kill:rank=-1 LOCKSTEP_FAIL=file@60:kill:rank=-1; do
    hosts=$((1 + blows % 2))
    LOCKSTEP_FAKE_NODES=$hosts "$mpirun" -n 2 env "$blow" "$lockstep" train "$work/kill.yaml" --set run.name=blow > out 2> err && fails "$blow: nobody was killed"
    blows=$((blows + 1))
    wait_for nobody_left
    LOCKSTEP_FAKE_NODES=$((3 - hosts)) "$mpirun" -n 2 "$lockstep" train kill.yaml --set run.name=blow > out 2> err || fails "$blow: does not continue"
    for file in model.safetensors optimizer.safetensors; do
        cmp runs/undisturbed/checkpoints/latest/$file runs/blow/checkpoints/latest/$file || fails "$blow: another $file"
    done
    rm -r runs/blow
done

# a file of rank 1 is cut short under it: rank 0 says so, on this host or another, and writes it down. Rank 1 says it too where it cannot know whether rank 0 does.
images() { { printf '\000\000\010\003\000\000\000\100\000\000\000\002\000\000\000\002'; head -c 256 /dev/zero; } > "$1/images"; }
for rank in 0 1; do
    mkdir $rank
    images $rank
    { printf '\000\000\010\001\000\000\000\100'; head -c 64 /dev/zero; } > $rank/labels
    cat > $rank/idx.yaml << END
model: {type: mlp, image_size: 2, hidden: [4], classes: 2}
data: {type: idx, train_images: images, train_labels: labels, eval_images: images, eval_labels: labels}
train: {epochs: 1000000, global_batch: 32, micro_batch: 16}
eval: {every_epochs: 0}
checkpoint: {every_epochs: -1}
threads: 1
run: {storage: $work/runs}
END
done
for hosts in 1 2; do
    images 1
    export LOCKSTEP_FAKE_NODES=$hosts
    "$mpirun" -n 1 -wdir $work/0 "$lockstep" train idx.yaml --set run.name=lost : -n 1 -wdir $work/1 "$lockstep" train idx.yaml --set run.name=lost > out 2> err &
    job=$!
    unset LOCKSTEP_FAKE_NODES
    wait_for grep -q '"step":3,' runs/lost/metrics.jsonl
    : > 1/images
    wait $job && fails "a file was cut short, and nobody noticed"
    grep -q "^error: rank 1: $work/1/images: a part of it is gone" err && [ "$(grep -c ^error: err)" -le $hosts ] || fails "a file was cut short on $hosts hosts: which?"
    grep -q '"state":"failed".*"error":"rank 1: .*/1/images: a part of it is gone' runs/lost/result.json || fails "a file was cut short: not written down"
    wait_for nobody_left
    rm -r runs/lost
done

# a module calls exit() on rank 1, while rank 0 is in a read that does not end within the second that mpirun grants: rank 1 names the function itself
cat > exits.c << END
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <unistd.h>
static ls_status build(ls_graph *g, const void *self, int64_t batch)
{
    (void)self;
    ls_loss(g, "l", ls_square(g, ls_linear(g, "fc", ls_input(g, "x", LS_TYPE(LS_F32, batch, 2)), 1)), 1, LS_BY_ELEMENT, NULL);
    return ls_graph_finish(g);
}
static ls_status read_one(const ls_dataset *d, int64_t i, void *const *to)
{
    (void)d, (void)i;
    if (atoi(getenv("OMPI_COMM_WORLD_RANK")) == 1)
        exit(0);
    sleep(60);
    ((float *)to[0])[0] = ((float *)to[0])[1] = 0;
    return LS_OK;
}
static ls_status data(ls_dataset **out, void *self, ls_split split, const void *settings)
{
    static const ls_field fields[] = { { .name = "x", .type = { LS_F32, 1, { 2 } } } };
    static ls_dataset sets[2];
    (void)self, (void)settings;
    sets[split] = (ls_dataset){ .name = "n", .source = "s", .split = split, .n = 32, .n_fields = 1, .fields = fields, .read = read_one };
    *out = &sets[split];
    return LS_OK;
}
LS_MODULE_EXPORT const ls_model_module *lockstep_module(void)
{
    static const ls_model_module m = { LS_MODULE_DEFAULTS, .name = "exits", .version = "0", .build = build, .data = data };
    return &m;
}
END
# shellcheck disable=SC2086
"$cc" -shared -fPIC $sanitize -I"$root/include" exits.c -o exits.so > out 2> err || fails "cc"
cat > exits.yaml << END
model: {type: module, path: ./exits.so}
data: {type: module}
train: {epochs: 1, global_batch: 8, micro_batch: 4}
threads: 1
END
for hosts in 1 2; do
    if LOCKSTEP_FAKE_NODES=$hosts "$mpirun" -n 2 "$lockstep" train exits.yaml --set run.name=exits > out 2> err; then
        fails "exit() on rank 1, and nobody noticed"
    fi
    grep -q "^error: rank 1: exits 0 (./exits.so): read called exit(): a function of a module returns a status" err || fails "exit() on rank 1 of $hosts hosts: which function?"
    wait_for nobody_left
    rm -rf runs/exits
done

# a rank of another host that does not come is named long before the wait fails
LOCKSTEP_NOTICE=0.5 LOCKSTEP_FAULT=delay@60:rank=1:seconds=3 LOCKSTEP_FAKE_NODES=2 "$mpirun" -n 2 "$lockstep" train small.yaml --set run.name=slow > out 2> err || fails "a slow rank"
grep -q "^warning: waiting for rank 1: rank 0 has waited .* for it in .*; on host .* it last did: step" err || fails "a slow rank is not named"
grep -q "^rank 1 goes on: rank 0 waited" err || fails "a slow rank goes on"

# a rank that is stopped, or whose script hangs, before it joins: one other rank of the host names it, also if it is rank 0; when it goes on, so does the run
sed 's/steps: 6/steps: 2/' small.yaml > starts.yaml
of_rank() { for p in $(pgrep -f "$work/starts.yaml"); do tr '\0' '\n' < "/proc/$p/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$p"; done; }
for rank in 0 3; do
    LOCKSTEP_NOTICE=2 LOCKSTEP_FAULT=stop@join:rank=$rank "$mpirun" -n 4 "$lockstep" train "$work/starts.yaml" --set run.name=starts > out 2> err &
    job=$!
    wait_for grep -q "^warning: waiting for rank $rank: its process [0-9]* on host .* is stopped (state T); it had not joined the group$" err
    kill -CONT "$(of_rank $rank)"
    wait $job || fails "rank $rank goes on, and the run does not"
    [ "$(grep -c "^warning: waiting for rank $rank:" err)" = 1 ] && grep -q "^all ranks have come, after [0-9]* s$" err || fails "rank $rank was stopped while ranks start: said once"
    rm -rf runs/starts
done
cat > late.sh << END
[ \$OMPI_COMM_WORLD_RANK = 0 ] || exec "\$@"
until [ -e $work/now ]; do sleep 0.05; done
exec "\$@"
END
LOCKSTEP_NOTICE=2 "$mpirun" -n 4 sh late.sh "$lockstep" train starts.yaml --set run.name=starts > out 2> err &
job=$!
wait_for grep -q "^warning: waiting for rank 0: its process [0-9]* (sh) on host .* has not come to MPI_Init, for [0-9]* s$" err
touch now
wait $job && grep -q "^all ranks have come, after" err || fails "rank 0 comes late"

# mpirun passes SIGUSR1 on to all ranks: one checkpoint; SIGTERM too, and gives them those seconds
LOCKSTEP_FAKE_NODES=2 "$mpirun" -n 2 "$lockstep" train "$work/long.yaml" --set run.name=asked > out 2> err &
job=$!
wait_for grep -q '"step":3,' runs/asked/metrics.jsonl
kill -USR1 $job
wait_for grep -q "^saved after step [0-9]* of .* on request" err
[ "$(ls runs/asked/checkpoints | grep -c ^step-)" = 1 ] || fails "one request, and not one checkpoint"
kill -TERM $job
wait $job && fails "a job that was stopped ends as if it were done"
grep -q '"state":"stopped"' runs/asked/result.json || fails "a job that was stopped is not said to have stopped"
[ "$(ls runs/asked/checkpoints | grep -c ^step-)" = 2 ] || fails "a job that was stopped has not saved"

unset OMPI_MCA_odls_base_sigkill_timeout
# SIGUSR2 asks to stop, too, and mpirun gives the ranks all the time
LOCKSTEP_FAKE_NODES=2 "$mpirun" -n 2 "$lockstep" train "$work/long.yaml" --set run.name=usr2 > out 2> err &
job=$!
wait_for grep -q '"step":3,' runs/usr2/metrics.jsonl
kill -USR2 $job; kill -USR2 $job
wait $job && fails "a job that was stopped ends as if it were done"
grep -q '"state":"stopped"' runs/usr2/result.json || fails "SIGUSR2 does not stop a job"
[ -e runs/usr2/checkpoints/latest ] || fails "a job that SIGUSR2 stopped has not saved"

# srun's variables, without an MPI that fits them
slurm() { # MESSAGE VARIABLES...
    message=$1; shift
    if env SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=2 "$@" "$lockstep" train small.yaml --set run.name=slurm > out 2> err; then
        fails "$*: trains alone"
    fi
    grep -q "$message" err || fails "$*: '$message' is not said"
}
slurm "srun started 2 tasks that cannot reach each other: use srun --mpi=pmix"
slurm "none.so does not load" PMIX_RANK=0 LOCKSTEP_MPI_MODULE=none.so
slurm "2 ranks were started, but Open MPI.* sees 1: .*srun --mpi" PMIX_RANK=0
if SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=2 "$lockstep" train small.yaml --set run.name=slurm > out 2> err; then
    fails "task 1 of 2 trains alone"
fi
[ ! -s err ] || fails "task 1, on another host, repeats what task 0 says"
[ ! -e runs/slurm ] || fails "a refused job left a folder"

for ranks in 2 3; do # all but the last train
    LOCKSTEP_FAKE_NODES=$((ranks - 1)) "$mpirun" -n $ranks "$example" shapes "example-$ranks.safetensors" > out 2> err || fails "the example with $ranks ranks"
    grep -q "step 50" out || fails "the example with $ranks ranks"
done
cmp example-2.safetensors example-3.safetensors

# a launcher that binds ranks hides cores from the file of doctor
first=$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/')
LOCKSTEP_FAKE_NODES=1 taskset -c "$first" "$mpirun" -n 2 "$lockstep" doctor --quiet --write-machine bound.yaml > out 2> err || fails "doctor on bound ranks"
grep -q "cores: 1$" bound.yaml || fails "bound ranks have more than a core: $(cat bound.yaml)"
[ "$(getconf _NPROCESSORS_ONLN)" = 1 ] || [ "$(grep -c "^warning: this rank may use 1 of the .* cores of its host.*--bind-to none" err)" = 1 ] || fails "doctor does not say that ranks are bound"
