#!/bin/sh
# live.sh MPIRUN EXAMPLE - a simulation on 4 ranks of MPI trains its surrogate and is replaced by it (examples/heat_surrogate.c): the error is small; killed
# and continued it ends with the same bits; it continues on another number of ranks.
set -eu
mpirun=$1 example=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-live-XXXXXX")
cd "$work"
trap 'cd /; rm -rf "$work"' EXIT
export LOCKSTEP_CACHE="$work/cache"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
unset LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_MPI_MODULE LOCKSTEP_FAKE_NODES LOCKSTEP_FAULT
fails() { echo "live.sh: $*"; cat out err 2> /dev/null; exit 1; }
small_error() { # a network that was not trained has an error of 9
    error=$(sed -n 's/.*in place of the solver: relative error //p' out)
    awk -v e="$error" 'BEGIN { exit !(e != "" && e > 0 && e < 0.03) }' || fails "$1: relative error $error"
}

mkdir whole killed
"$mpirun" -n 4 "$example" whole > out 2> err || fails "4 ranks do not run"
[ "$(grep -c 'held out' out)" = 3 ] || fails "what a run says"
small_error "4 ranks"

# a rank is killed while the first checkpoint is written, or soon after, and after the second one; each start goes on from the newest one
for folder in killed/field-0200 killed/network-0400; do
    "$mpirun" -n 4 "$example" killed > out 2> err &
    run=$!
    while [ ! -e "$folder" ] && kill -0 $run 2> /dev/null; do sleep 0.01; done
    rank=$(pgrep -P $run -n) && kill -9 "$rank" || fails "no rank to kill at $folder"
    if wait $run; then fails "nobody was killed at $folder"; fi
done
[ ! -e killed/network.safetensors ] || fails "a killed run came to its end"
LOCKSTEP_FAKE_NODES=2 "$mpirun" -n 4 "$example" killed > out 2> err || fails "a killed run does not continue on two hosts"
grep -q 'continues after step' out || fails "a killed run began anew"
for file in network.safetensors network-0600/model.safetensors network-0600/optimizer.safetensors network-0600/live.safetensors field-0600/model.safetensors; do
    cmp "whole/$file" "killed/$file" || fails "a killed run ends with another $file"
done

# other ranks
rm -r killed/*-0600
"$mpirun" -n 2 "$example" killed > out 2> err || fails "2 ranks do not continue what 4 began"
small_error "2 ranks"
