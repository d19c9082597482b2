#!/bin/sh
# any_ranks.sh MODEL FIELD COMMAND GOLDEN [MPIRUN] - examples/checkpoint_any_ranks.c and field_any_ranks.c: what any number of ranks saves, as threads, as processes over
# shared memory or over MPI, any other number loads; the files are the same bytes. GOLDEN: tests/golden, with what the tutorial's program has saved with PyTorch.
set -eu
model=$1 field=$2 lockstep=$3 golden=$4 mpirun=${5:-}
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-any-ranks-XXXXXX")
cd "$work"
trap 'cd /; rm -rf "$work"' EXIT
export LOCKSTEP_CACHE="$work/cache"
unset LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_FAULT
fails() { echo "any_ranks.sh: $*"; cat err out 2> /dev/null; exit 1; }
same() {
    for file in model.safetensors optimizer.safetensors; do
        [ ! -e "$1/$file" ] || cmp -s "$1/$file" "$2/$file" || fails "$1 and $2 have another $file"
    done
}
# processes N WORDS...: as torchrun would start them
processes() {
    n=$1; shift
    port=$((20000 + $$ % 20000)) list='' status=0
    for rank in $(seq $((n - 1))); do
        WORLD_SIZE=$n LOCAL_WORLD_SIZE=$n MASTER_PORT=$port RANK=$rank LOCAL_RANK=$rank "$@" > "out$rank" 2> "err$rank" & list="$list $!"
    done
    WORLD_SIZE=$n LOCAL_WORLD_SIZE=$n MASTER_PORT=$port RANK=0 LOCAL_RANK=0 "$@" > out 2> err || status=$?
    for process in $list; do wait "$process" || status=$?; done
    return $status
}

# The model: each of 1 to 4 ranks saves, each loads and saves again.
for n in 1 2 3 4; do
    "$model" save "from$n" $n > out 2> err || fails "$n ranks do not save"
    value=$(sed 's/.*ranks: //' out)
    for m in 1 2 3 4; do
        "$model" load "from$n" $m "from$n-$m" > out 2> err || fails "$m ranks do not load what $n have saved"
        [ "$(sed 's/.*ranks: //' out)" = "$value" ] || fails "$m ranks have loaded something else than $n have saved"
        same "from$n" "from$n-$m"
    done
done
# ToyModel and its Adam from two ranks of FSDP2
for m in 1 3; do
    "$model" load "$golden/dcp_toy" $m "toy-$m" > out 2> err || fails "$m ranks do not load what PyTorch has saved"
    same toy-1 "toy-$m"
done
"$lockstep" export toy-1 --to toy.safetensors > out 2> err && "$lockstep" export "$golden/dcp_toy" --to theirs.safetensors > out 2> err || fails "no export"
cmp toy.safetensors theirs.safetensors > out 2> err || fails "other weights than PyTorch has saved"
"$model" load from4 > out 2> err || fails "a process without ranks does not load"
"$model" save from4 2 > out 2> err && fails "a checkpoint is overwritten" || grep -q "already there" err || fails "it does not say that the checkpoint is there"
"$model" load nowhere 2 > out 2> err && fails "it loads what is not there" || grep -q nowhere err || fails "it does not say what is not there"
processes 2 "$model" save shared || fails "two processes do not save"
same shared from2
processes 4 "$model" load from2 || fails "four processes do not load what two threads have saved"
"$lockstep" inspect shared --verify > out 2> err && grep -q "net1" out || fails "inspect does not verify it"
"$lockstep" export shared --to torch --format dcp > out 2> err && "$lockstep" inspect torch > out 2> err && grep -q "408 *elements in 4 tensors" out || fails "export makes no DCP directory of it"
# With the optimizer of the example, in the shape that its program loads again; and what PyTorch has saved, for 8 ranks.
"$lockstep" export shared --to state --format dcp --optimizer --prefix app > out 2> err && grep -aq "app.optim.param_groups.0.betas" state/.metadata || fails "export makes no AppState of it"
"$model" load state 3 state-3 > out 2> err && same shared state-3 || fails "the optimizer is another one"
"$lockstep" export state-3 --to state-4 --format dcp --optimizer > out 2> err || fails "the learning rate is lost"
"$lockstep" export "$golden/dcp_toy" --to eight --format dcp --optimizer --ranks 8 > out 2> err && [ -e eight/__7_0.distcp ] || fails "export makes no directory of 8 ranks"
"$model" load eight 2 toy-8 > out 2> err && same toy-1 toy-8 || fails "through 8 ranks it is another model"

# The field.
sum='time 0.25, sum 1999000'
"$field" save one > out 2> err && grep -q "$sum" out || fails "one rank does not save the field"
for n in 2 3 4; do
    processes $n "$field" save "field$n" && grep -q "saved.*$n ranks: $sum" out || fails "$n processes do not save the field"
    same one "field$n"
    processes $n "$field" load one && grep -q "loaded.*$n ranks: $sum" out || fails "$n processes do not load the field"
done
"$lockstep" inspect field3 --verify > out 2> err && grep -q "2,001 *elements" out || fails "inspect does not verify the field"

if [ -n "$mpirun" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    LOCKSTEP_FAKE_NODES=2 "$mpirun" -n 4 "$model" save mpi > out 2> err || fails "four ranks on two hosts do not save"
    same mpi from4
    LOCKSTEP_FAKE_NODES=3 "$mpirun" -n 3 "$field" save mpi-field > out 2> err && grep -q "$sum" out || fails "three hosts do not save the field"
    same mpi-field one
    LOCKSTEP_FAKE_NODES=2 "$mpirun" -n 4 "$field" load mpi-field > out 2> err && grep -q "$sum" out || fails "two hosts do not load the field"
else
    echo "skipped: any_ranks.sh: ranks that mpirun starts (Debian: openmpi-bin libopenmpi-dev)"
    exit 77
fi
