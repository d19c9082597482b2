#!/bin/sh
# t5_two_ranks.sh PROGRAM LOCKSTEP - a test: the program takes two steps an epoch on two ranks with the tokenizer that needs no file, and the command knows
# its run and exports the best checkpoint.
set -eu
program=$1 lockstep=$2 work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-example-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
LOCKSTEP_CACHE=$work/cache
export LOCKSTEP_CACHE
{ echo headline,title,text; for i in $(seq 40); do echo "Headline $i.,title,\"Text $i, and
more of it.\""; done; } >pairs.csv
# fails unless both ranks end well
together() {
    RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_PORT=$$ "$program" "$@" >rank-1 2>&1 &
    RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_PORT=$$ "$program" "$@" >rank-0 2>&1 || { cat rank-0 rank-1; exit 1; }
    wait $! || { cat rank-1; exit 1; }
}
together pairs.csv pairs.csv bytes runs mine 2
grep -q 'rank 0  pairs.csv (40 of 40 pairs, ' rank-0
grep -q 'rank 0  epoch 1  loss [0-9.]*  evaluation [0-9.]*$' rank-0
[ "$(grep -a '^rank' rank-0 | sed 's/rank [01]//')" = "$(sed 's/rank [01]//' rank-1)" ] # every rank knows both losses
grep -aq '^summary: ' rank-0
"$lockstep" runs | grep -q '^mine  *finished'
"$lockstep" export runs/mine/checkpoints/best --to model.pt 2>err || { cat err; exit 1; }
"$lockstep" inspect model.pt | grep -q 'decoder' || exit 1
