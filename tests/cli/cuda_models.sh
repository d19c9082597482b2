#!/bin/bash
# cuda_models.sh COMMAND SHIMS KERNELS MODEL - a small model of one kind (vit, unet, resnet, qwen, experts, t5) on device cuda over the shims of tests/gpu: losses are near the CPU's,
# and the bits are the same on 1, 2 and 4 ranks in any layout, with and without graphs, offload and activation checkpointing, resumed, and with other seeds of the emulator.
# KERNELS: a folder that keeps compiled kernels.
shims=$2 kernels=$3 model=$4
source "$(dirname "$0")/common.sh"
export LOCKSTEP_CUDA_LIBRARIES=$shims LOCKSTEP_KERNEL_CACHE=$kernels
unset LOCKSTEP_DEVICE LOCKSTEP_ISA LOCKSTEP_CUDA_GRAPHS LOCKSTEP_CUDA_DEVICE LOCKSTEP_CUDA_SHARE CUDA_VISIBLE_DEVICES
seed=0

# ---- data and recipes. Four micro-batches a step, so that four ranks have one each

# npy SHAPE: an array of the bytes on stdin
npy() { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': ($1), }"; cat; }
case $model in
vit | resnet) idx_data data 32 8 4 ;;
unet)
    head -c $((32 * 16)) /dev/urandom | npy "32, 1, 4, 4" >image.npy
    head -c 200000 /dev/urandom | tr -cd '\000-\002' | head -c $((32 * 16)) | npy "32, 4, 4" >mask.npy
    ;;
qwen | experts) for i in $(seq 40); do echo "line $i of a text that says no more than that it is line $i"; done >text.txt ;;
t5) for i in $(seq 40); do echo "{\"source\": \"paper $i has an abstract.\", \"target\": \"paper $i\"}"; done >pairs.jsonl ;;
esac
case $model in
vit) cat <<EOT ;;
model: {type: vit, image_size: 4, patch_size: 2, layers: 2, heads: 2, hidden_size: 8, mlp_size: 12, dropout: 0.1}
data: {type: mnist, path: data}
train: {steps: 3, global_batch: 8, micro_batch: 2, clip_norm: 1}
optimizer: {type: adamw, lr: 1e-2}
parallel: {units: "class:EncoderBlock"}
EOT
unet) cat <<EOT ;;
model: {type: unet, inputs: {image: [1, 4, 4]}, outputs: {mask: [4, 4, 3]}, channels: 2, levels: 1}
data: {type: arrays, train: {image: image.npy, mask: mask.npy}, eval: {image: image.npy, mask: mask.npy}}
loss: {type: cross_entropy, of: mask}
train: {steps: 3, global_batch: 16, micro_batch: 4}
optimizer: {type: sgd, lr: 1e-2, momentum: 0.9}
parallel: {units: "class:DoubleConv"}
EOT
resnet) cat <<EOT ;;
model: {type: resnet18, image_size: 4}
data: {type: mnist, path: data}
train: {steps: 1, global_batch: 16, micro_batch: 8}
optimizer: {type: sgd, lr: 1e-2}
parallel: {units: "class:BasicBlock"}
EOT
qwen) cat <<EOT ;;
model: {type: qwen2, vocab_size: 264, layers: 2, heads: 4, kv_heads: 2, hidden_size: 16, mlp_size: 24, tied: true}
data: {type: text, train_text: text.txt, eval_text: text.txt, tokenizer: bytes, documents: line, pack: false, seq_length: 8}
train: {steps: 3, global_batch: 4, micro_batch: 1, clip_norm: 1}
optimizer: {type: adamw, lr: 1e-3, ema_decay: 0.9}
parallel: {units: "class:Qwen2DecoderLayer"}
EOT
experts) cat <<EOT ;;
model: {type: qwen3_moe, vocab_size: 264, layers: 2, heads: 4, kv_heads: 2, hidden_size: 16, mlp_size: 24, tied: true,
        experts: 6, experts_per_token: 2, expert_size: 12, normalize_experts: true, balance: 0.05}
data: {type: text, train_text: text.txt, eval_text: text.txt, tokenizer: bytes, documents: line, pack: false, seq_length: 8}
train: {steps: 3, global_batch: 4, micro_batch: 1, clip_norm: 1}
optimizer: {type: adamw, lr: 1e-3}
parallel: {units: "class:Qwen3MoeDecoderLayer"}
EOT
t5) cat <<EOT ;;
model: {type: t5, vocab_size: 264, layers: 1, heads: 2, hidden_size: 16, mlp_size: 24, tied: true, dropout: 0.1}
data: {type: pairs, train_text: pairs.jsonl, eval_text: pairs.jsonl, tokenizer: bytes, source_length: 8, target_length: 4}
train: {steps: 3, global_batch: 4, micro_batch: 1, clip_norm: 1}
optimizer: {type: adamw, lr: 1e-3}
parallel: {units: "class:T5Block"}
EOT
esac >recipe.yaml
echo 'threads: 1
run: {seed: 5}
eval: {every_epochs: -1}
checkpoint: {best: {metric: train_loss}}' >>recipe.yaml

# ---- checks

# run NAME ARGS...: trains on device cuda
run() {
    local name=$1
    shift
    seed=$((seed + 1))
    LOCKSTEP_SHIM="gpus=4,seed=$seed" try 0 train recipe.yaml -q --set device=cuda --set run.name="$name" "$@"
}
losses() { sed -n 's/^{"kind":"step",.*"loss":\([^,]*\),.*/\1/p' "runs/$1/metrics.jsonl"; }
# same GROUP NAME ARGS...: trains; weights, moments and losses are those of the first run of the group
same() {
    local group=$1 name=$2 file
    shift 2
    run "$name" "$@"
    [ -e "runs/$group" ] || { ln -s "$name" "runs/$group"; return; }
    for file in model.safetensors optimizer.safetensors; do
        cmp "runs/$group/checkpoints/latest/$file" "runs/$name/checkpoints/latest/$file" || bad "$what: another $file than the first run of group $group"
    done
    diff <(losses "$group") <(losses "$name") || bad "$what: other losses than the first run of group $group"
}
# near TOLERANCE A B: the losses of two runs, one by one
near() {
    paste <(losses "$2") <(losses "$3") | awk -v most="$1" '
        { d = $1 - $2; d = (d < 0 ? -d : d) / $1; if (NF != 2 || !(d <= most)) bad = 1 }
        END { exit bad || !NR }' || { bad "losses of $2 and of $3 are farther apart than $1:"; paste <(losses "$2") <(losses "$3"); }
}
try 0 train recipe.yaml -q --set device=cpu --set run.name=cpu

# Sums have another order than the CPU's. f32 has 24 bits, and a step amplifies what it loses; a loss is a mean.
same f32 one
near 1e-4 cpu one
LOCKSTEP_CUDA_GRAPHS=0 same f32 plain
same f32 ddp2 --workers 2 --set parallel.data=ddp
if [ $model = resnet ]; then # 11 million parameters: seconds a run, so only these
    finish
    exit
fi
same f32 fsdp2 --workers 2
if [ $model = experts ]; then # what qwen does not have
    same f32 ddp4 --workers 4 --set parallel.data=ddp
    same f32 again2 --workers 2 --set parallel.recompute=units --set parallel.offload=cpu
    same f32 stages4 --workers 4 --set 'parallel.mesh={dp: 2, pp: 2}'
    for type in f16 bf16; do
        same $type $type --set precision.param=$type
        near 2e-2 cpu $type
        same $type ${type}_2 --workers 2 --set precision.param=$type
    done
    run tf32 --set kernels=tf32
    near 1e-2 cpu tf32
    cmp -s "runs/f32/checkpoints/latest/model.safetensors" "runs/tf32/checkpoints/latest/model.safetensors" && bad "tf32 has the bits of f32"
    run tp2 --workers 2 --set 'parallel.mesh={tp: 2}'
    near 1e-4 cpu tp2
    # more of them than one launch has room for
    many=(--set model.experts=260 --set train.steps=1 --set train.global_batch=1)
    try 0 train recipe.yaml -q --set device=cpu --set run.name=many_cpu "${many[@]}"
    run many "${many[@]}"
    near 1e-4 many_cpu many
    for device in cpu cuda; do
        try 0 predict runs/cpu -q --set device=$device --prompt ab --tokens 6
        cp out $device.text
    done
    cmp cpu.text cuda.text || bad "$what: another text than on the CPU"
    finish
    exit
fi
same f32 ddp4 --workers 4 --set parallel.data=ddp
same f32 once4 --workers 4 --set parallel.synchronize=once
same f32 fsdp4 --workers 4 --set parallel.reshard_after_forward=true
same f32 hsdp4 --workers 4 --set parallel.data=hybrid --set 'parallel.mesh={dp: 2, shard: 2}'
LOCKSTEP_CUDA_GRAPHS=0 same f32 plain4 --workers 4
same f32 offload --set parallel.offload=cpu
same f32 offload2 --workers 2 --set parallel.offload=cpu
unit=$(sed -n 's/.*units: "\(.*\)".*/\1/p' recipe.yaml)
same f32 again --set parallel.recompute="$unit"
same f32 again2 --workers 2 --set parallel.recompute="$unit" --set parallel.offload=cpu

# stopped after a step and resumed, with the same ranks and with others
run resumed --set train.steps=1
same f32 resumed
run grown --set train.steps=1 --workers 2
same f32 grown --workers 4
run shrunk --set train.steps=2 --workers 4
LOCKSTEP_CUDA_GRAPHS=0 same f32 shrunk

# one running sum of gradients has other last bits, the same ones without graphs
same running running --set train.accumulate=running
LOCKSTEP_CUDA_GRAPHS=0 same running running_plain --set train.accumulate=running
near 1e-4 cpu running

# f16 with its loss scale, and bf16
for type in f16 bf16; do
    same $type $type --set precision.param=$type
    near 2e-2 cpu $type
    same $type ${type}_2 --workers 2 --set precision.param=$type
    same $type ${type}_4 --workers 4 --set precision.param=$type --set parallel.data=ddp
    LOCKSTEP_CUDA_GRAPHS=0 same $type ${type}_plain --set precision.param=$type
    run ${type}_resumed --set precision.param=$type --set train.steps=1
    same $type ${type}_resumed --set precision.param=$type
    cmp -s "runs/f32/checkpoints/latest/model.safetensors" "runs/$type/checkpoints/latest/model.safetensors" && bad "$type has the bits of f32"
done

# an optimizer that gathers whole matrices
if [ $model = t5 ]; then
    same adafactor adafactor --set optimizer.type=adafactor
    same adafactor adafactor2 --workers 2 --set optimizer.type=adafactor
    LOCKSTEP_CUDA_GRAPHS=0 same adafactor adafactor4 --workers 4 --set optimizer.type=adafactor
fi

# what a trained model says: texts, drawn and by a search of beams, and an evaluation
case $model in
qwen | t5)
    for how in "--temperature 1" "--beams 3"; do
        for device in cpu cuda; do
            try 0 predict runs/cpu -q --set device=$device --prompt ab --tokens 6 $how
            cp out $device.text
        done
        cmp cpu.text cuda.text || bad "$what: another text than on the CPU"
    done
    ;;
esac
for device in cpu cuda; do
    try 0 eval runs/cpu -q --set device=$device
    sed -n 's/.*loss \([0-9.]*\).*/\1/p' out >$device.eval
done
paste cpu.eval cuda.eval | awk '{ ok = NF == 2 && $1 / $2 > 0.9999 && $1 / $2 < 1.0001 } END { exit !ok }' || bad "$what: another loss than on the CPU: $(paste cpu.eval cuda.eval)"

# Stages change no bit.
case $model in
vit | qwen)
    same f32 stages2 --workers 2 --set 'parallel.mesh={pp: 2}'
    LOCKSTEP_CUDA_GRAPHS=0 same f32 stages4 --workers 4 --set 'parallel.mesh={dp: 2, pp: 2}' --set parallel.schedule=gpipe
    same f32 saved2 --workers 2 --set 'parallel.mesh={pp: 2}' --set parallel.recompute="$unit save:linear/2"
    LOCKSTEP_CUDA_NCCL=0 same bf16 bf16_stages4 --workers 4 --set 'parallel.mesh={dp: 2, pp: 2}' --set precision.param=bf16
    ;;
esac

# Nor do experts that are dealt to ranks.
if [ $model = experts ]; then
    same f32 dealt2 --workers 2 --set 'parallel.mesh={ep: 2}'
    LOCKSTEP_CUDA_GRAPHS=0 same f32 dealt4 --workers 4 --set 'parallel.mesh={dp: 2, ep: 2}' --set parallel.data=ddp
    same bf16 bf16_dealt2 --workers 2 --set 'parallel.mesh={ep: 2}' --set precision.param=bf16 --set parallel.recompute="$unit"
fi

# Layers split over ranks add in another order. The number of data ranks beside them changes no bit.
case $model in
vit | qwen | t5)
    tp='parallel.mesh={dp: auto, tp: 2}'
    same tp tp2 --workers 2 --set "$tp"
    near 1e-4 cpu tp2
    same tp tp4 --workers 4 --set "$tp"
    LOCKSTEP_CUDA_GRAPHS=0 same tp tp_plain --workers 2 --set "$tp"
    run tp_resumed --workers 4 --set "$tp" --set train.steps=1
    same tp tp_resumed --workers 2 --set "$tp"
    ;;
esac

# With slices the numbers of ranks on tp and cp change no bit either.
if [ $model = qwen ]; then
    same slices slices1 --set parallel.slices=2
    near 1e-4 cpu slices1
    same slices slices_tp2 --workers 2 --set "$tp" --set parallel.slices=2
    LOCKSTEP_CUDA_GRAPHS=0 same slices slices_cp2 --workers 2 --set 'parallel.mesh={dp: auto, cp: 2}' --set parallel.slices=2
fi
finish
