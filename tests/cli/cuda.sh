#!/bin/sh
# cuda.sh COMMAND SHIMS KERNELS - device cuda on the shims of tests/gpu, as a user meets it: what is missing or wrong
# is said with what to do, and a run is as on any device. KERNELS: a folder that keeps compiled kernels.
set -u
lockstep=$1 shims=$2 kernels=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-cuda-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export LOCKSTEP_CACHE="$work/cache" LOCKSTEP_CUDA_LIBRARIES="$shims" LOCKSTEP_KERNEL_CACHE="$kernels"
unset LOCKSTEP_DEVICE LOCKSTEP_ISA LOCKSTEP_SHIM CUDA_VISIBLE_DEVICES
failures=0

try() {
    want=$1; shift
    "$lockstep" "$@" >out 2>err </dev/null
    got=$?
    what=$*
    [ $got -eq "$want" ] || { echo "lockstep $what: exit status $got instead of $want"; cat err; failures=$((failures + 1)); }
}
has() { for text in "$@"; do grep -qF -- "$text" err out || { echo "lockstep $what: '$text' is not there:"; cat out err; failures=$((failures + 1)); }; done; }
plan() { want=$1; shift; try "$want" plan mlp-mnist --set device=cuda "$@"; }

# what the machine lacks
mkdir none driver
LOCKSTEP_CUDA_LIBRARIES=$work/none plan 1; has "no driver: libcuda.so.1 is not in $work/none (LOCKSTEP_CUDA_LIBRARIES)"
ln -s "$shims/libcuda.so.1" driver/
try_train() { want=$1; shift; try "$want" train mlp-mnist --set device=cuda --set data.type=shapes --set train.steps=1 "$@"; }
LOCKSTEP_CUDA_LIBRARIES=$work/driver try_train 1
has "no compiler for kernels: libnvrtc.so.13 or .12 is not in $work/driver" "pip install nvidia-cuda-nvrtc"
LOCKSTEP_SHIM=driver=11080 plan 1; has "is for CUDA 11.8; 12.0 (driver 525) or newer is needed"
LOCKSTEP_SHIM=capability=75 try_train 1; has "is an sm_75; kernels are for sm_80"
CUDA_VISIBLE_DEVICES='' try_train 1; has "no GPU is visible: CUDA_VISIBLE_DEVICES is \"\""
LOCKSTEP_CUDA_DEVICE=3 try_train 1; has "there is no GPU 3: there are 1, counted from 0"
LOCKSTEP_CUDA_GRAPHS=no try_train 2; has "LOCKSTEP_CUDA_GRAPHS=no: it is one of these words: 0 1"
LOCKSTEP_CUDA_DEVICE=x try_train 2; has "LOCKSTEP_CUDA_DEVICE=x: it is the number of a GPU, from 0"
LOCKSTEP_SHIM=gpus=2 try_train 1 --workers 4; has "4 ranks on this host and 2 GPUs" "workers: 2"
LOCKSTEP_SHIM=memory=1MiB try_train 2; has "a step needs" "may use 1.0 MiB: device cuda has no more"
LOCKSTEP_SHIM=memory=1GiB,taken=1023MiB try_train 1; has "are needed, and" "are free on GPU 0" "nvidia-smi lists what else uses it"

# combinations
try 2 plan mlp-mnist --set device=cpu --set kernels=tf32; has "tf32 is for device cuda"
try 2 plan mlp-mnist --set device=cpu --set kernels=cublaslt; has "cublaslt is for device cuda"
try 2 plan mlp-mnist --set device=cuda --set isa=avx2; has "avx2 is an instruction set of CPUs"
try 2 plan mlp-mnist --set device=cpu --set isa=sm_90; has "sm_90 is an architecture of GPUs: it needs device: cuda"
try 2 plan mlp-mnist --set device=cuda --set precision.param=f64; has "f64 is for device ref"
try 2 plan mlp-mnist --set device=cuda --set workers=2 --set parallel.data=fsdp --set parallel.gather=map; has "map needs memory that all ranks of a host map"
# a plan for a machine that this one is not needs no driver
LOCKSTEP_CUDA_LIBRARIES=$work/none plan 0 --set isa=sm_90; has "cuda, sm_90"
LOCKSTEP_CUDA_LIBRARIES=$work/none plan 1; has "for a plan of another machine say which GPU it has (isa: sm_90)"

# cuBLASLt, only where it is asked for: it is missing, too old, of another driver; explain shows what it computes
ln -s "$shims/libnvrtc.so.13" "$shims/libnvrtc.so.12" driver/
LOCKSTEP_CUDA_LIBRARIES=$work/driver plan 0
LOCKSTEP_CUDA_LIBRARIES=$work/driver try_train 1 --set kernels=cublaslt
has "kernels: cublaslt: NVIDIA's library for matrix products is missing: libcublasLt.so.13 or .12 is not in $work/driver (LOCKSTEP_CUDA_LIBRARIES)" \
    "install it with \`pip install nvidia-cublas\`" "kernels: own needs no library"
LOCKSTEP_SHIM=driver=12040 LOCKSTEP_CUDA_LIBRARIES=$work/driver try_train 1 --set kernels=cublaslt
has "libcublasLt.so.12 (the driver is for CUDA 12) is not in" "pip install nvidia-cublas-cu12"
LOCKSTEP_SHIM=cublaslt=11.8 try_train 1 --set kernels=cublaslt; has "libcublasLt.so.13 has version 11.8; 12.0 or newer is needed"
LOCKSTEP_SHIM=cublaslt=11.8,driver=12040 try_train 1 --set kernels=cublaslt; has "libcublasLt.so.12 has version 11.8"
LOCKSTEP_CUDA_LIBRARIES=$work/driver plan 0 --set isa=sm_90 --set kernels=cublaslt; has "cuda, sm_90"
try 0 explain mlp-mnist --set device=cuda --set kernels=cublaslt; has "linear by cublaslt %" "linear_dw by cublaslt %"
try 0 explain mlp-mnist --set device=cuda; grep -q "linear by " out && { echo "explain: own kernels are by another"; failures=$((failures + 1)); }

# auto takes the GPU, and says so; LOCKSTEP_DEVICE wins
try 0 train mlp-mnist --set data.type=shapes --set train.steps=2 --set run.name=auto; has "device: auto takes cuda, GPU 0 (" 
LOCKSTEP_DEVICE=cpu try 0 plan mlp-mnist; has "parameters  cpu, "
# and takes the CPU where a driver cannot be used, and says why; where there is no GPU it says nothing
LOCKSTEP_SHIM=driver=11080 try 0 plan mlp-mnist; has "parameters  cpu, " "device: auto takes cpu, though there is a driver" "is for CUDA 11.8"
CUDA_VISIBLE_DEVICES= try 0 plan mlp-mnist; has "parameters  cpu, "; grep -q "device: auto" out err && { echo "auto speaks of a GPU that is not there"; failures=$((failures + 1)); }
# graphs or not: the same bits; an error in the middle of a run is of the device
LOCKSTEP_CUDA_GRAPHS=0 try 0 train mlp-mnist --set data.type=shapes --set train.steps=2 --set run.name=tasks
for run in auto tasks; do find . -path "*$run*" -name '*.safetensors' -exec sha256sum {} + | sed 's/ .*//' | sort >$run.sums; done
cmp auto.sums tasks.sums || failures=$((failures + 1))
LOCKSTEP_SHIM=launch=5 try_train 1 --set run.name=fault; has "device cuda" "CUDA_ERROR_ILLEGAL_ADDRESS"

# The same bits on any layout of ranks, with offload, and with the loss scale of f16. Without evaluations, which are
# most of the time on the emulator. same GROUP NAME OPTIONS: trains, and compares with the first run of the group.
same() {
    group=$1 run=$2; shift 2
    LOCKSTEP_SHIM=gpus=4 try 0 train mlp-mnist --set device=cuda --set data.type=shapes --set train.global_batch=16 \
        --set train.micro_batch=4 --set train.steps=3 --set eval.every_epochs=-1 --set checkpoint.best.metric=train_loss --set run.name="$run" "$@"
    sum=$(cat runs/"$run"/checkpoints/step-*/model.safetensors | sha256sum)
    [ -f "$group.sum" ] || echo "$sum" >"$group.sum"
    [ "$sum" = "$(cat "$group.sum")" ] || { echo "$run: other bits than the first run of $group"; failures=$((failures + 1)); }
}
same f32 one
same f32 ddp --workers 4 --set parallel.data=ddp
same f32 fsdp --workers 4 --set parallel.data=fsdp
same f32 hsdp --workers 4 --set parallel.data=hybrid --set 'parallel.mesh={dp: auto, shard: 2}'
same f32 offload --set parallel.offload=cpu
same f32 profile --profile 2:3
[ -s runs/profile/log/rank-0.trace.json ] || { echo "there is no trace"; failures=$((failures + 1)); }
same f16 half --set precision.param=f16
same f16 half2 --workers 2 --set precision.param=f16
same lt lt --set kernels=cublaslt
LOCKSTEP_CUDA_GRAPHS=0 same lt lt_tasks --set kernels=cublaslt
has "step 3/3"
LOCKSTEP_SHIM=leaks try_train 0 --set kernels=cublaslt --set eval.every_epochs=-1 --set checkpoint.best.metric=train_loss
cmp -s f32.sum lt.sum && { echo "cuBLASLt has the bits of own kernels: it is not used"; failures=$((failures + 1)); }
cmp -s f32.sum f16.sum && { echo "f16 has the bits of f32"; failures=$((failures + 1)); }

# a checkpoint moves to the CPU and back, when one says so: the bits are others from there on
move() { want=$1; shift; try "$want" train mlp-mnist --set data.type=shapes --set train.global_batch=16 --set train.micro_batch=4 \
    --set eval.every_epochs=-1 --set checkpoint.best.metric=train_loss "$@"; }
from=$(ls -d runs/one/checkpoints/step-*)
move 2 --set device=cpu --set train.steps=4 --set run.name=there --resume "$from"; has "device: cpu here, cuda there"
move 0 --set device=cpu --set train.steps=4 --set run.name=there --resume "$from" --allow-change; has "step 4/4"
move 0 --set device=cuda --set train.steps=5 --set run.name=back --resume "$(ls -d runs/there/checkpoints/step-*4)" --allow-change; has "step 5/5"

# the cache: damaged files are compiled again, and a folder that cannot be written is said once
mkdir damaged
cp "$kernels"/*.cubin damaged/
for file in damaged/*; do printf 'x' >"$file"; done
LOCKSTEP_KERNEL_CACHE=$work/damaged try_train 0 --set run.name=damaged; has "the file is damaged; compiling again"
[ "$(grep -c "file is damaged" err)" -eq 1 ] || { echo "damaged files are said more than once"; cat err; failures=$((failures + 1)); }
touch file
LOCKSTEP_KERNEL_CACHE=$work/file/kernels try_train 0 --set run.name=unwritable; has "compiled kernels cannot be kept"
# of two ranks with an empty cache one compiles each file; where nothing can be kept, each rank compiles all
ranks() { LOCKSTEP_SHIM=gpus=2,compilations try_train 0 --workers $1 --set eval.every_epochs=-1 --set checkpoint.best.metric=train_loss --set run.name="$2"; }
LOCKSTEP_KERNEL_CACHE=$work/fresh ranks 2 fresh
compiled=$(grep -c 'shim: compiles' err) files=$(ls fresh/*.cubin | wc -l)
{ [ "$files" -gt 5 ] && [ "$compiled" -eq "$files" ]; } || { echo "2 ranks compile $compiled files for $files in the cache"; failures=$((failures + 1)); }
LOCKSTEP_KERNEL_CACHE=$work/file/kernels ranks 2 apart; has "compiled kernels cannot be kept"
compiled=$(grep -c 'shim: compiles' err)
[ "$compiled" -eq $((2 * files)) ] || { echo "2 ranks compile $compiled files where nothing is kept, instead of $((2 * files))"; failures=$((failures + 1)); }

try 0 doctor --no-measure; has "sm_80" "16.0 GiB of memory"
[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
echo "all as it should be"
