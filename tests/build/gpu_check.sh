#!/bin/bash
# gpu_check.sh SOURCE BUILD COMMAND - tools/gpu_carry.sh and tools/gpu_check.sh over the emulator of GPUs, at small sizes: every part that needs no GPU
# is ok, those that need one say "not here", and a part that fails is said, ends with status 1, and does not stop the others.
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
shift 2
. "$source/tests/cli/common.sh"
export LOCKSTEP_DATA=$work/data LS_TEST_OPS=adam,lion,layer_norm,softmax,sum_to,linear
for set in mnist fashion-mnist; do idx_data data/$set 64 16 28; done
mkdir data/wikitext-2 data/scitldr-a
for i in $(seq 40); do echo "line $i of a text that says no more than that it is line $i"; done >data/wikitext-2/valid.txt
for i in $(seq 40); do echo "{\"source\": [\"paper $i has an abstract.\", \"it is short.\"], \"target\": [\"paper $i\"]}"; done >data/scitldr-a/dev.jsonl

what=gpu_carry.sh
small=1 "$source/tools/gpu_carry.sh" "$build" carried >out 2>err || { bad "gpu_carry.sh fails"; cat err; }
has out '3 recipes, [1-9][0-9]* texts of kernels, [1-9][0-9]* results of ops'

# check STATUS PARTS...
check() {
    local want=$1
    shift
    what="gpu_check.sh $*"
    OUT=$work/checked GPU_CARRIED=$work/carried LOCKSTEP_CUDA_LIBRARIES=$build/tests/gpu/shim "$source/tools/gpu_check.sh" "$@" >out 2>err
    local got=$?
    [ $got -eq "$want" ] || { bad "$what: exit status $got instead of $want"; cat out err; tail -n 20 checked/*.log; }
}
check 0
for part in ops bits cublaslt vit qwen t5 kernels; do has out "^$part +ok "; done
for part in resnet memcheck racecheck bench; do has out "^$part +not here "; done
has out '^machine +not here .*the emulator, no GPU'
has out '^vit .*2 losses within .* of the CPU.s; without graphs and resumed: the same bits'
has out '^bits .* ([0-9]+) of \1 results have the emulator.s bits'

# what is not the CPU's, or not the emulator's
awk '{ print $1 * 1.1 }' carried/goldens/vit.txt >changed && mv changed carried/goldens/vit.txt
sed -i '1s/[^ ]*$/0123/' carried/bits.txt
check 1 vit ops bits t5
has out '^vit +FAILED .*losses differ by .* from the CPU.s'
has out '^bits +FAILED '
has out '^ops +ok '
has out '^t5 +ok '
GPU_CHECK_SECONDS=3 check 1 t5
has out '^t5 +no time '
finish
