#!/bin/bash
# gpu_check.sh SOURCE BUILD COMMAND - tools/gpu_carry.sh and tools/gpu_check.sh over the emulator of GPUs, at small sizes: every part that needs no GPU
# is ok, those that need one say "not here", and a part that fails is said, ends with status 1, and does not stop the others. The check runs in a copy of the
# files that it uses, without this environment, as on a machine that builds nothing.
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
shift 2
. "$source/tests/cli/common.sh"
export LOCKSTEP_DATA=$work/data LS_TEST_OPS=adam,lion,layer_norm,softmax,sum_to,linear
idx_data data/fashion-mnist 64 16 28
idx_data data/mnist 64 16 8
mkdir data/wikitext-2 data/scitldr-a
for i in $(seq 40); do echo "line $i of a text that says no more than that it is line $i"; done >data/wikitext-2/valid.txt
for i in $(seq 40); do echo "{\"source\": [\"paper $i has an abstract.\", \"it is short.\"], \"target\": [\"paper $i\"]}"; done >data/scitldr-a/dev.jsonl

what=gpu_carry.sh
mkdir -p tree/gpu-check && ln -s "$work/kernels" tree/gpu-check/kernels # what gpu_carry.sh compiles serves the check, too
export LOCKSTEP_KERNEL_CACHE=$work/kernels
nvrtc=$build/tests/gpu/shim small=1 "$source/tools/gpu_carry.sh" "$build" tree/.gpu >out 2>err || { bad "gpu_carry.sh fails"; cat err; }
has out 'glibc 2[.][0-9]+, .* 4 recipes, [1-9][0-9]* texts of kernels, [1-9][0-9]* results of ops'
mkdir -p tree/src/device/gpu tree/tests/gpu/nvrtc
cp -r "$source/tools" "$source/bench" tree
cp -r "$source/src/device/gpu/kernels" tree/src/device/gpu
cp "$source/tests/gpu/nvrtc/spills.txt" tree/tests/gpu/nvrtc

# check STATUS WORDS...: settings of the environment, options and parts
check() {
    local want=$1 settings=()
    shift
    what="gpu_check.sh $*"
    while [[ ${1-} = *=* ]]; do settings+=("$1"); shift; done
    env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$work" LS_TEST_OPS=$LS_TEST_OPS OUT="$work/checked" GPU_CHECK_SECONDS=10000 LOCKSTEP_CUDA_LIBRARIES="$build/tests/gpu/shim" ${settings+"${settings[@]}"} tree/tools/gpu_check.sh "$@" >out 2>err
    local got=$?
    [ $got -eq "$want" ] || { bad "$what: exit status $got instead of $want"; cat out err; tail -n 20 checked/*.log; }
}
check 0
for part in ops bits cublaslt vit resnet qwen t5 kernels; do has out "^$part +ok "; done
for part in memcheck racecheck bench; do has out "^$part +not here "; done
has out '^machine +not here .*the emulator, no GPU'
has out '^vit .*2 losses within .* of the CPU.s; half of the steps without graphs, resumed with graphs: the same bits'
has out '^bits .* ([0-9]+) of \1 results have the emulator.s bits'
cmp out checked/result.txt || bad "$what: another result.txt"

# what part compile puts into the cache, the op suite finds there: it is a text of softmax, with its file as it is now. (The emulator's compiler says nothing
# of registers, so the program fails.)
what="gpu_compile_all --keep"
mkdir one && cp tree/gpu-check/carried/texts/*-softmax.cu one && sed -i '$a #error an old text' one/*
export LOCKSTEP_CUDA_LIBRARIES=$build/tests/gpu/shim LOCKSTEP_KERNEL_CACHE=$work/kept
tree/gpu-check/carried/gpu_compile_all one tree/tests/gpu/nvrtc/spills.txt --all --keep here >out 2>err
has out ': 0 kernels'
compiled=$(ls kept | wc -l)
[ "$compiled" -gt 0 ] && [ "$compiled" -eq "$(ls one | wc -l)" ] || { bad "$what: $compiled of $(ls one | wc -l) texts are in the cache"; cat out err; }
LS_TEST_OPS=softmax tree/gpu-check/carried/gpu_test_ops f32 >out 2>err || { bad "$what: the op suite fails"; cat out err; }
[ "$(ls kept | wc -l)" -eq "$compiled" ] || bad "$what: the op suite compiled $(($(ls kept | wc -l) - compiled)) texts again"
unset LOCKSTEP_CUDA_LIBRARIES

# what is not the CPU's, or not the emulator's
cd tree/gpu-check/carried
awk '{ print $1 * 1.1 }' goldens/vit.txt >changed && mv changed goldens/vit.txt
sed -i '1s/[^ ]*$/0123/' bits.txt
tar -cf - . | gzip >../../.gpu/carried.tar.gz
cd "$work"
check 1 vit bits ops t5
has out '^vit +FAILED .*losses differ by .* from the CPU.s'
has out '^bits +FAILED '
has out '^ops +ok '
has out '^t5 +ok '
check 1 GPU_CHECK_SECONDS=3 t5
has out '^t5 +no time '

# what a later call does: parts that are not ok. The machine has a driver and no NVRTC.
mkdir driver && ln -s "$build/tests/gpu/shim/libcuda.so.1" driver
what="lockstep doctor, which gpu_check.sh asks whether there is NVRTC"
LOCKSTEP_CUDA_LIBRARIES=$work/driver tree/gpu-check/carried/lockstep doctor --no-measure >out
has out '^  cuda +cannot be used: .*no compiler for kernels'
check 1 LOCKSTEP_CUDA_LIBRARIES= LD_LIBRARY_PATH="$work/driver" GPU_CHECK_NVRTC=carried --rest qwen t5 vit
times 2 out .
has out '^t5 +ok '
has out '^vit +FAILED '
has checked/result.txt '^ops +ok '
has checked/result.txt '^t5 +ok '
finish
