#!/bin/bash
# torch_environment.sh COMMAND - variables that torchrun and PyTorch know: one line of `train` says which count, and what counts instead of the others.
source "$(dirname "$0")/common.sh"
for name in $(compgen -e); do
    case $name in RANK | WORLD_SIZE | LOCAL_* | MASTER_* | NCCL_* | TORCH* | PYTORCH_* | GLOO_* | CUDA_* | OMP_* | MKL_* | OPENBLAS_* | KMP_* | GOMP_*) unset "$name" ;; esac
done
idx_data data 64 16 28
train=(train mlp-mnist --dry-run --set data.path=data --set train.global_batch=64 --set train.micro_batch=16)
# with NAME=VALUE... -- PATTERN ARGS...: the line of a start with these variables
with() {
    local set=()
    while [ "$1" != -- ]; do set+=("$1"); shift; done
    local pattern=$2
    shift 2
    what="${set[*]} lockstep $*"
    env "${set[@]}" "$lockstep" "$@" >out 2>err </dev/null || { bad "$what: exit status $?"; cat err; }
    once err "$pattern"
    once err '^env '
}

try 0 "${train[@]}"; times 0 err '^env '
with MASTER_ADDR=localhost MASTER_PORT=12355 -- '^env    MASTER_ADDR, MASTER_PORT: not needed, ranks of a host share memory and hosts speak MPI$' "${train[@]}"
with RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 -- '^env    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE: one rank; --workers N starts more$' "${train[@]}"
with RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 -- '^env    RANK, WORLD_SIZE, .*: not used, --workers started the ranks$' "${train[@]}" --workers 2
with NCCL_DEBUG=INFO NCCL_IB_DISABLE=1 TORCH_DISTRIBUTED_DEBUG=DETAIL PYTORCH_CUDA_ALLOC_CONF=x -- \
    '^env    NCCL_DEBUG, NCCL_IB_DISABLE: not needed, .*; TORCH_DISTRIBUTED_DEBUG: not needed, .* --verbose .*; PYTORCH_CUDA_ALLOC_CONF: not needed, memory is planned' "${train[@]}" --set device=cpu
with CUDA_VISIBLE_DEVICES=0 CUDA_LAUNCH_BLOCKING=1 -- '^env    CUDA_VISIBLE_DEVICES: not needed, the device is not cuda; CUDA_LAUNCH_BLOCKING: not used, LOCKSTEP_CUDA_WAIT=1' "${train[@]}" --set device=cpu
with OMP_NUM_THREADS=999 -- '^env    OMP_NUM_THREADS: no effect, the cores allow no more threads$' "${train[@]}"
with OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 -- '^env    OMP_NUM_THREADS: not used, the recipe says how many threads; MKL_NUM_THREADS: not used' "${train[@]}" --set threads=2
with OMP_PROC_BIND=true KMP_AFFINITY=compact -- '^env    OMP_PROC_BIND, KMP_AFFINITY: not used, each rank is bound to its own cores' "${train[@]}"
# all that torchrun sets, for two ranks: rank 0 says it
for rank in 0 1; do
    env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 9999)) OMP_NUM_THREADS=1 \
        TORCHELASTIC_RUN_ID=none$$ "$lockstep" "${train[@]}" >out$rank 2>err$rank </dev/null &
done
what="two ranks of torchrun"
wait
once err0 '^env    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE: used, torchrun started the ranks; MASTER_PORT: used, .*; MASTER_ADDR: not needed, .*; OMP_NUM_THREADS: '
times 0 err1 '^env '
# some of them, as an operator of a cluster sets them
what="RANK and WORLD_SIZE alone"
env RANK=0 WORLD_SIZE=2 "$lockstep" "${train[@]}" >out 2>err </dev/null && bad "$what is no error"
once err '^error: RANK, WORLD_SIZE set, but not LOCAL_RANK, LOCAL_WORLD_SIZE: torchrun sets all of them; set or unset them together \(`--workers N` and --hosts need none of them\)$'
finish
