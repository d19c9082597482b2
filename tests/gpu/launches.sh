#!/bin/sh
# launches.sh TEST [ARGS...] - runs a test on device cuda over the shims, and fails if the test launches no kernel.
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
LOCKSTEP_SHIM=${LOCKSTEP_SHIM:+$LOCKSTEP_SHIM,}launches "$@" 2>"$log"
status=$?
cat "$log" >&2
[ $status -eq 0 ] || exit $status
grep -q '^shim: [1-9][0-9]* launches$' "$log" || { echo "$1: no kernel was launched" >&2; exit 1; }
