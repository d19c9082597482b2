#!/bin/sh
# cuda_told.sh COMMAND SHIMS KERNELS - what users of device cuda read, on the shims of tests/gpu: doctor, the estimates of
# plan, the op that failed, and the GPU and its memory in the log, the report, the memory page and the trace of a run.
set -u
lockstep=$1 shims=$2 kernels=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-told-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export LOCKSTEP_CACHE="$work/cache" LOCKSTEP_CUDA_LIBRARIES="$shims" LOCKSTEP_KERNEL_CACHE="$kernels"
unset LOCKSTEP_DEVICE LOCKSTEP_ISA LOCKSTEP_SHIM CUDA_VISIBLE_DEVICES LOCKSTEP_CUDA_WAIT CUDA_MPS_PIPE_DIRECTORY
failures=0

fail() { echo "$*"; failures=$((failures + 1)); }
try() {
    want=$1; shift
    "$lockstep" "$@" >out 2>err </dev/null
    got=$?
    what=$*
    [ $got -eq "$want" ] || { fail "lockstep $what: exit status $got instead of $want"; cat err; }
}
has() { for text in "$@"; do grep -qF -- "$text" err out || { fail "lockstep $what: '$text' is not there:"; cat out err; }; done; }
lacks() { for text in "$@"; do grep -qF -- "$text" err out && { fail "lockstep $what: '$text' is there:"; cat out err; }; done; }
page() { file=$1; shift; for text in "$@"; do grep -qF -- "$text" "$file" || fail "$file: '$text' is not there"; done; }

# doctor: each library, each GPU, the cache; what is missing hides nothing else
LOCKSTEP_SHIM=gpus=2,taken=1GiB,driver=12040,clock=1500000 try 0 doctor --no-measure
has "for CUDA 12.4, $shims/libcuda.so.1" "$shims/libnvrtc.so.13" "$shims/libcublasLt.so" "Shim GPU 1, compute capability 8.0, 15.0 GiB of 16.0 GiB" \
    "108 multiprocessors, 1.5 GHz, PCI 0000:01:00.0" "f32 20.74, bf16 and f16 331.8 TFLOP/s, memory 1.555 TB/s" " in $kernels"
lacks "to look at"
LOCKSTEP_SHIM=mode=3 try 0 doctor --no-measure --json; has "GPU 0 is in compute mode" "exclusive process" '"GPU 0":"Shim GPU 0'
LOCKSTEP_SHIM=mode=2 try 0 doctor --no-measure; has "it cannot be used now: " "CUDA_ERROR_DEVICE_UNAVAILABLE" "nvidia-smi -i 0000:00:00.0 -c 0"
mkdir none driver
LOCKSTEP_CUDA_LIBRARIES=$work/none try 0 doctor --no-measure
has "missing, so device cuda cannot be used" "Looked for libcuda.so.1 in $work/none" "pip install nvidia-cuda-nvrtc" "kernels: cublaslt cannot be used" "values travel between GPUs through host memory"
ln -s "$shims/libcuda.so.1" driver/
LOCKSTEP_CUDA_LIBRARIES=$work/driver try 0 doctor --no-measure; has "Shim GPU 0, compute" "missing, so device cuda cannot compile its kernels"
touch file
LOCKSTEP_KERNEL_CACHE=$work/file/kernels try 0 doctor --no-measure; has "0 compiled files, 0 B in $work/file/kernels (not writable)" "set LOCKSTEP_KERNEL_CACHE"
LOCKSTEP_CACHE=$work/file/cache try 0 doctor --no-measure; has "$work/file/cache (not writable)" "cannot be written: Not a directory; set LOCKSTEP_CACHE"

# plan: by the clocks of the GPU here, by a data sheet of one that is not, and measured. time_of: ms a step, in 1/100 ms
time_of() { sed -n 's/^time    about \([0-9]*\)[.]\([0-9]*\) ms.*/\1\2/p' out; }
plan() { try 0 plan vit-fashion-mnist --set device=cuda "$@"; }
plan; has "not measured, but by the clocks of GPU 0 (Shim GPU 0): 108 multiprocessors x 128 FLOP (bf16 2048) x 1.41 GHz" "--measure runs"
full=$(time_of)
LOCKSTEP_SHIM=clock=141000,memory_clock=121500 plan; has "x 0.141 GHz, memory 5120 bit x 2 x 0.1215 GHz"
[ "$(time_of)" -gt $((2 * full)) ] || fail "a tenth of the clocks: $(time_of) instead of more than twice $full"
LOCKSTEP_CUDA_LIBRARIES=$work/none plan --set isa=sm_90; has "the data sheet of H100 SXM: f32 67, bf16 989 TFLOP/s, memory 3.35 TB/s"
lacks "--measure runs"
f32=$(time_of)
LOCKSTEP_CUDA_LIBRARIES=$work/none plan --set isa=sm_90 --set precision.param=bf16
[ "$(time_of)" -lt "$f32" ] || fail "bf16 takes $(time_of), f32 $f32"
LOCKSTEP_CUDA_LIBRARIES=$work/none plan --set isa=sm_90 --json; has '"speeds":"the data sheet of H100 SXM'
# (offloaded steps run on the processor, which was not measured yet)
plan --set parallel.offload=cpu; has "time    not known"
small() { LOCKSTEP_SHIM=clock=10,memory_clock=10 try 0 plan mlp-mnist --set device=cuda --set train.global_batch=4 --set train.micro_batch=4 "$@"; }
small --measure; has "measured on Shim GPU 0" "time    about"; lacks "not measured, but by"
small; has "measured on Shim GPU 0" "time    about"
ls cache | grep -q '^calibration-.*-cuda-sm_80-' || fail "no calibration of the GPU was kept: $(ls cache)"

# the op that failed
train() { want=$1; shift; try "$want" train mlp-mnist --set device=cuda --set data.type=shapes --set train.steps=2 --set train.global_batch=16 \
    --set train.micro_batch=4 --set eval.every_epochs=-1 --set checkpoint.best.metric=train_loss "$@"; }
LOCKSTEP_SHIM=launch=5 train 1 --set run.name=fault; has "CUDA_ERROR_ILLEGAL_ADDRESS" "LOCKSTEP_CUDA_WAIT=1 waits for each task and names the op"
# (a later call hears of it, if the host is late)
LOCKSTEP_CUDA_GRAPHS=0 LOCKSTEP_SHIM=launch=2,delay=0us train 1 --set run.name=late; has "device cuda: work on the GPU failed (LOCKSTEP_CUDA_WAIT=1" "CUDA_ERROR_ILLEGAL_ADDRESS"
LOCKSTEP_CUDA_WAIT=1 LOCKSTEP_SHIM=launch=3 train 1 --set run.name=named
has "step 1 (epoch 0): device cuda: program \"micro\"" "linear of layers." "kernel matmul (" "CUDA_ERROR_ILLEGAL_ADDRESS"

# a run: its GPU, and memory of the device apart from that of the process
LOCKSTEP_CUDA_WAIT=1 train 0 --set run.name=wait; has "cuda, Shim GPU 0, sm_80" " of the device and "
train 0 --set run.name=run --set parallel.offload=cpu --profile 1:3; # (all of the model is offloaded, so its peak is what the plan has on the device)
device=$(sed -n 's/.*memory \(.*\) of the device and .* of the host planned.*/\1/p' out err)
has "peak $device on the device in unit"
planned=$(sed -n 's/.*"planned":\([0-9]*\).*/\1/p' runs/wait/log/rank-0.heartbeat.json)
[ "$planned" -lt 100000 ] || fail "a heartbeat plans $planned bytes for the process, with those of the device"
cat runs/wait/checkpoints/step-*/model.safetensors >one; cat runs/run/checkpoints/step-*/model.safetensors >two
cmp one two || fail "LOCKSTEP_CUDA_WAIT changes bits"
page runs/run/result.json '"device":"cuda"' '"hardware":"Shim GPU 0"'
page runs/run/report.html "Shim GPU 0 · sm_80" "all of it, on the device" "all of it, on the host" "<td>MFU</td>" "the peak of Shim GPU 0</td>"
page runs/run/log/rank-0.trace.json "ops (device cuda, first queue)" "copies (device cuda, second queue)" '"cat":"copy"' "to_device of unit root"
LOCKSTEP_SHIM=gpus=2 train 0 --set run.name=linked --workers 2 --profile 1:3; has "values travel between ranks by NCCL 2"
page runs/linked/log/rank-0.trace.json "collectives (device cuda, third queue)" '"cat":"link"' "reduce_scatter of unit root"
[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
echo "all as it should be"
