#!/bin/bash
# ranks.sh COMMAND RUNS - the program of runs.f90 on ranks and meshes: data axes change no bit, a tensor axis only the order of sums.
source "$(dirname "$0")/../cli/common.sh"
runs=$2
mkdir files
"$runs" files | grep -qx fine || bad "$runs"
one=$("$runs" files dp=1 fsdp)
# loss RANKS MESH LAYOUT
loss() { try 0 launch --workers "$1" -- "$runs" files "$2" "$3"; grep -oE '[0-9]\.[0-9]+E[-+][0-9]+' out err | sed 's/.*://' | head -1; }
[ -n "$one" ] || bad "one rank prints no loss"
for mesh in "2 dp=2 ddp" "2 dp=auto fsdp" "4 shard=4 fsdp"; do
    got=$(loss $mesh)
    [ "$got" = "$(echo $one)" ] || bad "$mesh: loss $got, on one rank $one"
done
got=$(loss 4 "dp=2 shard=2" hybrid)
[ "$got" = "$(echo $one)" ] || bad "dp=2 shard=2: loss $got, on one rank $one"
got=$(loss 4 "dp=2 tp=2" fsdp)
awk -v a="$got" -v b="$one" 'BEGIN { d = a - b; exit !(a > 0 && d < 1e-5 && d > -1e-5) }' || bad "dp=2 tp=2: loss $got, on one rank $one"
finish
