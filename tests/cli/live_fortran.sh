#!/bin/sh
# live_fortran.sh MPIRUN EXAMPLE - the simulation in Fortran (examples/heat_surrogate.f90) on 4 ranks of MPI trains its surrogate and is replaced by it:
# the error is small, a second run has the same bits, and it runs on 1 rank.
set -eu
mpirun=$1 example=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-live-XXXXXX")
cd "$work"
trap 'cd /; rm -rf "$work"' EXIT
export LOCKSTEP_CACHE="$work/cache"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
unset LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_MPI_MODULE LOCKSTEP_FAKE_NODES LOCKSTEP_FAULT
fails() { echo "live_fortran.sh: $*"; cat out err 2> /dev/null; exit 1; }
runs() { # RANKS FILE: a network that was not trained has an error of 9
    "$mpirun" -n "$1" "$example" "$2" > out 2> err || fails "$1 ranks do not run"
    [ "$(grep -c 'held out' out)" = 3 ] || fails "what a run of $1 ranks says"
    error=$(sed -n 's/.*in place of the solver: relative error //p' out)
    awk -v e="$error" 'BEGIN { exit !(e != "" && e > 0 && e < 0.03) }' || fails "$1 ranks: relative error $error"
}
runs 4 first.safetensors
runs 4 second.safetensors
cmp first.safetensors second.safetensors || fails "a second run has other bits"
runs 1 alone.safetensors
