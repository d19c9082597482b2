#!/bin/sh
# two_ranks.sh PROGRAM LOCKSTEP - a test: the program takes two steps an epoch on two ranks, and the command knows its run and predicts with it.
set -eu
program=$1 lockstep=$2
few=2
[ "${program##*_}" != fsdp ] || few="1 2" # vit_fsdp: epochs, and steps of each
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-example-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
LOCKSTEP_CACHE=$work/cache
export LOCKSTEP_CACHE
# fails unless both ranks end well
together() {
    "$lockstep" launch --workers 2 -- sh -c 'exec "$@" >rank-$LOCKSTEP_RANK 2>&1' - "$program" "$@" || { cat rank-0 rank-1; exit 1; }
}
together shapes runs mine $few
grep -q 'rank 0  epoch 0  loss [0-9.]*  accuracy [0-9.]*$' rank-0
[ "$(sed 's/rank [01]//' rank-0)" = "$(sed 's/rank [01]//' rank-1)" ] # every rank knows loss and accuracy
"$lockstep" runs | grep -q '^mine  *finished'
"$lockstep" predict runs/mine/checkpoints/latest --set data.type=shapes --count 9 --out predictions.png 2>err | grep -q 'of 9 right' || { cat err; exit 1; }
[ "$(head -c 4 predictions.png | tail -c 3)" = PNG ]
together shapes runs mine $few # a finished run has nothing to do
[ ! -s rank-0 ] || { echo "a finished run was trained on:"; cat rank-0; exit 1; }
