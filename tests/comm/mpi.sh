#!/bin/sh
# Ranks that mpirun starts, on pretend hosts: the same bits as threads; a communicator of a program's own; what is refused and how.
# Usage: mpi.sh all|some MPIRUN RANKS_PROGRAM PROGRAM MODULE [MODULE_OF_ANOTHER_MPI]
set -eu
what=$1 mpirun=$2 ranks=$3 program=$4 module=$5 other=${6-}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 # containers; more ranks than cores
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
export LOCKSTEP_MPI_MODULE=$module
out=$(mktemp)
trap 'rm -f "$out"' EXIT
fails() { echo "mpi.sh: $1"; cat "$out"; exit 1; }

lines() { # COUNT TEXT: so many lines have it
    [ "$(grep -c "$2" "$out")" = "$1" ] || fails "expected $1 lines with: $2"
}
says() { grep -q "$1" "$out" || fails "expected: $1"; } # (of several ranks that fail, mpirun ends some before they say so)
runs() { "$mpirun" -n "$@" > "$out" 2>&1 || fails "-n $* failed"; }
refuses() { ! "$mpirun" -n "$@" > "$out" 2>&1 || fails "-n $* must fail"; }

LOCKSTEP_FAKE_NODES=2 runs 4 "$ranks" && lines 4 'of 4, 2 hosts, mpi: the same bits'
LOCKSTEP_FAKE_NODES=2 runs 4 "$program" && lines 4 'of 4: its own communicator'
if [ -n "$other" ]; then
    LOCKSTEP_MPI_MODULE=$other refuses 2 "$ranks" && says '2 ranks were started, but .* sees 1'
fi
[ "$what" = all ] || exit 0

runs 4 "$ranks" && lines 4 'of 4, 1 hosts, shm: the same bits'
LOCKSTEP_FAKE_NODES=4 runs 4 "$ranks" && lines 4 'of 4, 4 hosts, mpi: the same bits'
LOCKSTEP_FAKE_NODES=2 runs 2 "$ranks" && lines 2 'of 2, 2 hosts, mpi: the same bits'
LOCKSTEP_FAKE_NODES=2 refuses 4 "$program" serialized && says 'initialise it with MPI_THREAD_MULTIPLE'
LOCKSTEP_FAKE_NODES=3 refuses 2 "$ranks" && says 'LOCKSTEP_FAKE_NODES=3 does not divide the 2 ranks'
LOCKSTEP_FAKE_NODES=2 refuses 2 "$ranks" fail 1 && lines 1 '^the loss is NaN'
LOCKSTEP_MPI_MODULE=/nowhere/module.so refuses 2 "$ranks" && says 'the module /nowhere/module.so does not load'
