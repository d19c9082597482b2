#!/bin/sh
# custom_loop.sh EXAMPLE COMMAND [MPIRUN] - examples/custom_loop.c as its users start it: killed, stopped, on other numbers of ranks, as threads and as
# processes, it ends with the bytes of the run that nothing disturbed; and the command knows its runs.
set -eu
example=$1 lockstep=$2 mpirun=${3:-}
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-loop-XXXXXX")
cd "$work"
trap 'cd /; rm -rf "$work"' EXIT
export LOCKSTEP_CACHE="$work/cache"
unset LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_FAULT
fails() { echo "custom_loop.sh: $*"; cat err out 2> /dev/null; exit 1; }
same() {
    for file in model.safetensors optimizer.safetensors; do
        cmp -s "runs/whole/checkpoints/latest/$file" "runs/$1/checkpoints/latest/$file" || fails "$1 ends with another $file than the run that nothing disturbed"
    done
    "$lockstep" inspect "runs/$1" --verify > out 2> err || fails "inspect does not verify runs/$1"
}
# One start of run $1 with the words that follow, and signal $2 as soon as its first checkpoint is there. Its exit status: $status.
blow() {
    name=$1 signal=$2; shift 2
    "$example" runs "$name" "$@" > out 2> err & process=$!
    while [ ! -e "runs/$name/checkpoints/latest" ] && kill -0 $process 2> /dev/null; do sleep 0.01; done
    kill -"$signal" $process 2> /dev/null || true
    wait $process 2> /dev/null && status=0 || status=$?
}

"$example" runs whole 2 > out 2> err || fails "the run that nothing disturbs fails"
[ "$(wc -l < out)" = 6 ] || fails "six epochs are not told"

for try in $(seq 20); do # on a busy machine it may end before the blow
    blow killed-$try KILL 2
    [ $status -eq 137 ] && break
done
[ $status -eq 137 ] || fails "it could not be killed in time: status $status"
"$lockstep" runs > out 2> err && grep -q "killed-$try *died" out || fails "runs does not say that it died"
"$lockstep" runs --json > out && grep -q '"state":"died"' out || fails "runs --json does not say that it died"
"$example" runs killed-$try 4 > out 2> err || fails "it does not go on after a kill"
! grep -q "epoch 0 " out || fails "it began again instead of going on"
same killed-$try
[ "$(sed -n 's/.*"attempt":\([0-9]*\).*/\1/p' "runs/killed-$try/result.json")" = 1 ] || fails "the second start is not attempt 1"
grep -q '"state":"finished"' "runs/killed-$try/result.json" || fails "it is not finished"

for try in $(seq 20); do
    blow stopped-$try TERM 4
    [ $status -eq 75 ] && break
done
[ $status -eq 75 ] || fails "it could not be stopped in time: status $status"
grep -q "stopped after epoch" err || fails "it does not say where it stopped"
grep -q '"state":"stopped"' "runs/stopped-$try/result.json" || fails "it is not stopped"
"$example" runs stopped-$try > out 2> err || fails "it does not go on after a stop"
same stopped-$try
"$example" runs stopped-$try 2 > out 2> err || fails "a finished run does not end well"
[ ! -s out ] || fails "a finished run trains on"

# Two processes, as torchrun would start them; one is killed in the middle of an epoch, and the other tells. Then both again.
pair() {
    RANK=1 LOCAL_RANK=1 LOCKSTEP_FAULT=$1 "$example" runs pair > out1 2> err1 & second=$!
    RANK=0 LOCAL_RANK=0 "$example" runs pair > out 2> err && status=0 || status=$?
    wait $second 2> /dev/null || true
}
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_PORT=$$
pair kill@500
[ $status -eq 1 ] || fails "a killed rank does not fail the other: status $status"
grep -q "rank 0: rank 1: its process is gone" err || fails "the other does not say who is gone"
grep -q '"state":"failed"' runs/pair/result.json || fails "the run with a killed rank has not failed"
pair ''
[ $status -eq 0 ] || fails "it does not go on after a rank was killed"
! grep -q "epoch 0 " out || fails "it began again instead of going on after a rank was killed"
unset WORLD_SIZE LOCAL_WORLD_SIZE MASTER_PORT
same pair

if [ -n "$mpirun" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    LOCKSTEP_FAKE_NODES=2 "$mpirun" -n 4 "$example" runs hosts > out 2> err || fails "four ranks on two hosts fail"
    same hosts
else
    echo "skipped: custom_loop.sh: ranks that mpirun starts (Debian: openmpi-bin libopenmpi-dev)"
fi

# What the command says of such a run, and what it cannot.
"$lockstep" export runs/pair --to model.pt > out 2> err || fails "export fails"
"$lockstep" eval runs/pair > out 2> err && fails "eval cannot know the model" || grep -q "your own program made this run" err || fails "eval does not say why it cannot"
"$lockstep" train mlp-mnist --set run.name=pair --set data.type=shapes > out 2> err && fails "train takes the folder" || grep -q "your own program" err ||
    fails "train does not say whose folder it is"
[ -n "$mpirun" ] || exit 77
