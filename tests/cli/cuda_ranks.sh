#!/bin/bash
# cuda_ranks.sh COMMAND SHIMS KERNELS [MPIRUN] - which GPU each rank has, over the shims of tests/gpu: two ranks on one GPU are refused or share it, as
# LOCKSTEP_CUDA_SHARE says; and which compiler goes with which driver. KERNELS: a folder that keeps compiled kernels.
shims=$2 kernels=$3 mpirun=${4-}
source "$(dirname "$0")/common.sh"
export LOCKSTEP_CUDA_LIBRARIES=$shims LOCKSTEP_KERNEL_CACHE=$kernels
unset LOCKSTEP_DEVICE LOCKSTEP_ISA LOCKSTEP_SHIM LOCKSTEP_CUDA_GRAPHS LOCKSTEP_CUDA_DEVICE LOCKSTEP_CUDA_SHARE CUDA_VISIBLE_DEVICES
idx_data data 16 8 4
cat >small.yaml <<EOT
model: {type: mlp, hidden: [8], image_size: 4}
data: {type: mnist, path: data}
train: {steps: 2, global_batch: 8, micro_batch: 4}
eval: {every_epochs: -1}
checkpoint: {best: {metric: train_loss}}
device: cuda
threads: 1
EOT
train() { local want=$1; shift; try "$want" train small.yaml -q "$@"; }
as_one() { cmp runs/one/checkpoints/latest/model.safetensors "runs/$1/checkpoints/latest/model.safetensors" || bad "$what: other weights than one rank"; }
train 0 --set run.name=one

# ---- ranks that `lockstep train` starts
LOCKSTEP_SHIM=gpus=2 train 0 --workers 2 --set run.name=two; as_one two
LOCKSTEP_SHIM=gpus=4 CUDA_VISIBLE_DEVICES=3,1 train 0 --workers 2 --set run.name=some; as_one some
LOCKSTEP_SHIM=gpus=4 CUDA_VISIBLE_DEVICES=3 train 1 --workers 2 --set run.name=no
has err '2 ranks on this host and 1 GPU \(CUDA_VISIBLE_DEVICES is "3"\): each rank needs one of its own; workers: 1, or LOCKSTEP_CUDA_SHARE=1 lets ranks share them'
LOCKSTEP_CUDA_DEVICE=0 LOCKSTEP_SHIM=gpus=2 train 2 --workers 2 --set run.name=no
has err 'LOCKSTEP_CUDA_DEVICE=0: with 2 ranks on a host each has the GPU of its number'
LOCKSTEP_CUDA_SHARE=1 train 0 --workers 2 --set run.name=shared; as_one shared
LOCKSTEP_CUDA_SHARE=1 LOCKSTEP_SHIM=gpus=2 train 0 --workers 4 --set train.micro_batch=2 --set run.name=shared4
[ ! -e runs/no ] || bad "a refused run left a folder"

# ---- ranks that mpirun starts, each of which may see GPUs of its own: the bus numbers tell whether these are two
if [ -n "$mpirun" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 LOCKSTEP_SHIM=gpus=2
    # ranks NAME GPUS: 2 ranks that each see GPUS, where RANK stands for the rank
    ranks() {
        what="mpirun $*"
        "$mpirun" -n 2 sh -c 'export CUDA_VISIBLE_DEVICES=$(echo "$1" | sed "s/RANK/$OMPI_COMM_WORLD_RANK/"); shift; exec "$@"' sh "$2" \
            "$lockstep" train small.yaml -q --set run.name="$1" >out 2>err
    }
    ranks own RANK && as_one own || { bad "$what: fails"; cat err; }
    ranks all 0,1 && as_one all || { bad "$what: fails"; cat err; }
    ranks same 1 && bad "$what: two ranks use one GPU"
    has err 'rank [01] of this host has the same GPU, Shim GPU 1 at 0000:01:00.0: give each rank one of its own \(srun --gpus-per-task=1\), or LOCKSTEP_CUDA_SHARE=1'
    LOCKSTEP_CUDA_SHARE=1 ranks share 1 && as_one share || { bad "$what: fails"; cat err; }
    # a rank on each of two hosts: what tasks of the GPU's queue send and what the host sends has one order on all ranks, though the queue is late
    for nccl in 1 0; do
        LOCKSTEP_FAKE_NODES=2 LOCKSTEP_CUDA_NCCL=$nccl LOCKSTEP_SHIM=gpus=2,delay=20ms ranks hosts$nccl RANK && as_one hosts$nccl || { bad "$what: fails"; cat err; }
    done
else
    left_out "no mpirun (Debian: openmpi-bin): GPUs that each rank sees for itself"
fi

# ---- a driver for CUDA 12 runs what NVRTC 12 makes, and not what NVRTC 13 makes
mkdir old new
ln -s "$shims"/libcuda.so.1 "$shims"/libnvrtc.so.12 old
ln -s "$shims"/libcuda.so.1 "$shims"/libnvrtc.so.13 new
export LOCKSTEP_SHIM=driver=12040,nvrtc=12.8
LOCKSTEP_CUDA_LIBRARIES=$work/old train 0 --set run.name=old; as_one old
echo "not looked at: the driver is old" >old/libnvrtc.so.13
LOCKSTEP_CUDA_LIBRARIES=$work/old train 0 --set run.name=both; as_one both
LOCKSTEP_SHIM=driver=12040,nvrtc=13.0 LOCKSTEP_CUDA_LIBRARIES=$work/new train 1 --set run.name=no
has err 'no compiler for kernels: libnvrtc\.so\.12 \(the driver is for CUDA 12\) is not in .*pip install nvidia-cuda-nvrtc-cu12'
# a newer driver runs what older compilers made
LOCKSTEP_SHIM=driver=13000,nvrtc=12.8 LOCKSTEP_CUDA_LIBRARIES=$work/old train 0 --set run.name=newer; as_one newer
finish
