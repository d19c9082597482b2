#!/usr/bin/env bash
# emulated.sh COMMAND GOLDEN - device emulated, whose memory is its own and whose queues draw their delays: the bits of the CPU, with every kind of layout, precision
# and task, on 1, 2 and 4 ranks and with eight seeds among them; killed and continued; a failed task ends the run with program, step and op, and its checkpoint continues.
source "$(dirname "$0")/common.sh"
golden=$2

cat >mlp.yaml <<EOT
run: {seed: 5}
model: {type: mlp, image_size: 8, hidden: [32, 16]}
data: {type: mnist, path: pictures}
train: {steps: 6, global_batch: 64, micro_batch: 8, clip_norm: 1}
optimizer: {type: adamw, lr: 1e-3, ema_decay: 0.9}
eval: {every_epochs: 1, ema: true}
checkpoint: {every_steps: 3}
threads: 1
EOT
cat >language.yaml <<EOT
model: {type: qwen2, init: $golden/language}
data: {type: text, train_text: $golden/language/text.txt, tokenizer: bytes, documents: line, pack: false, seq_length: 32, shuffle: false, eval_text: $golden/language/text.txt}
train: {steps: 3, global_batch: 4, micro_batch: 1}
optimizer: {type: adamw, lr: 1e-3}
parallel: {units: "class:Qwen2DecoderLayer"}
threads: 1
EOT
idx_data data 40 24 8
idx_data pictures 400 200 8
resnet="resnet18-mnist --set data.path=data --set model.image_size=8 --set train.global_batch=16 --set train.micro_batch=4 --set train.steps=3 --set threads=1"
vit="vit-fashion-mnist --set data.path=data --set model.image_size=8 --set model.patch_size=4 --set train.global_batch=16 --set train.micro_batch=4 --set train.steps=3 --set threads=1"

# equal SEED ARGS...: train ARGS on the CPU and here, and both have left the same files
equal() {
    local seed=$1 file; shift
    [ "$*" = "${before-}" ] || { rm -rf runs/cpu; LOCKSTEP_DEVICE=cpu try 0 train "$@" --set run.name=cpu; }
    before="$*"
    rm -rf runs/here
    LOCKSTEP_DEVICE=emulated LOCKSTEP_EMULATED="seed=$seed,delay=${delay-100us}" try 0 train "$@" --set run.name=here
    for file in model.safetensors optimizer.safetensors; do
        cmp "runs/cpu/checkpoints/latest/$file" "runs/here/checkpoints/latest/$file" || bad "$what (seed $seed): another $file than on the CPU"
    done
    for file in cpu here; do grep -oE '"(loss|grad_norm|accuracy)":[^,}]*' runs/$file/metrics.jsonl >$file.numbers; done
    cmp cpu.numbers here.numbers || bad "$what (seed $seed): other numbers in metrics.jsonl than on the CPU"
    [ -s here.numbers ] || bad "$what: no numbers in metrics.jsonl"
}

seed=0
for workers in 1 2 4; do
    for seed in $workers $((workers + 4)); do equal $seed mlp.yaml --workers $workers; done
    for options in "--set parallel.data=ddp" "--set precision.param=bf16" "--set precision.param=f16" "--set train.accumulate=running" "--set parallel.synchronize=once" \
        "--set optimizer.type=muon --set train.clip_norm=0" "--set optimizer.type=adafactor" "--set checkpoint.async=true"; do
        [ $workers != 1 ] || [ "${options#*parallel}" = "$options" ] || continue
        seed=$((seed % 8 + 1)); equal $seed mlp.yaml --workers $workers $options
    done
    for options in "$resnet" "$vit" "language.yaml"; do seed=$((seed % 8 + 1)); equal $seed $options --workers $workers; done
done
equal 1 language.yaml --workers 4 --set "parallel.mesh={dp: auto, tp: 2}"
equal 2 language.yaml --workers 4 --set "parallel.mesh={dp: auto, tp: 2}" --set precision.param=bf16
equal 4 language.yaml --workers 4 --set "parallel.mesh={dp: auto, cp: 2}" --set precision.param=bf16
stages=(--set "parallel.mesh={dp: auto, pp: 2}")
equal 3 language.yaml --workers 2 "${stages[@]}"
equal 6 language.yaml --workers 4 "${stages[@]}" --set precision.param=bf16 --set parallel.schedule=gpipe
equal 7 language.yaml --workers 2 "${stages[@]}" --set "parallel.recompute=class:Qwen2DecoderLayer save:linear/2 save:attention"
equal 3 mlp.yaml --workers 2 --set parallel.offload=cpu
equal 4 language.yaml --workers 2 --set parallel.offload=cpu --set parallel.reshard_after_forward=true
delay=2ms equal 5 mlp.yaml --workers 2

# ---- a run that moves between the devices, and predictions, have the same bits too
export LOCKSTEP_EMULATED=seed=6
rm -rf runs
LOCKSTEP_DEVICE=cpu try 0 train mlp.yaml --set run.name=whole
LOCKSTEP_DEVICE=cpu try 0 train language.yaml --set run.name=text
LOCKSTEP_DEVICE=emulated try 0 train mlp.yaml --set run.name=moved --set train.steps=3
LOCKSTEP_DEVICE=cpu try 0 train mlp.yaml --set run.name=moved --set train.steps=6
cmp runs/whole/checkpoints/latest/model.safetensors runs/moved/checkpoints/latest/model.safetensors || bad "$what: another model after it moved"
for device in cpu emulated; do
    LOCKSTEP_DEVICE=$device try 0 predict runs/whole --out $device.csv
    LOCKSTEP_DEVICE=$device try 0 eval runs/whole; grep -oE '(loss|accuracy) +[0-9.e-]+' out >$device.eval
    LOCKSTEP_DEVICE=$device try 0 predict runs/text --prompt "the" --tokens 12; cp out $device.text
done
cmp cpu.csv emulated.csv || bad "other predictions than on the CPU"
cmp cpu.eval emulated.eval || bad "another evaluation than on the CPU"
cmp cpu.text emulated.text || bad "another text than on the CPU"

# ---- a rank is killed
for call in 40 90; do
    export LOCKSTEP_DEVICE=emulated
    rm -rf runs/killed
    LOCKSTEP_FAULT=kill@$call:rank=1 "$lockstep" train mlp.yaml --workers 2 --set run.name=killed >out 2>err </dev/null && bad "nobody was killed at call $call"
    what="killed at $call"; has err "rank 1: killed by signal 9"
    try 0 train mlp.yaml --workers 2 --set run.name=killed
    cmp runs/whole/checkpoints/latest/model.safetensors runs/killed/checkpoints/latest/model.safetensors || bad "$what: another model"
done

# ---- a task fails: of step 5, whose number depends on the build (an evaluation and a save come behind step 3). The ranks start again, from step 3, and get to the
# end with fewer tasks; without restarts the run ends, and the next start continues
short="mlp.yaml --set eval.every_epochs=-1"
task=300
while [ $task -lt 9000 ]; do
    rm -rf runs/failed
    LOCKSTEP_EMULATED=fail=$task "$lockstep" train $short --set run.name=failed >out 2>err </dev/null
    ! grep -qE 'error: step 5[ :,].*program "micro"' err || break
    if grep -qE 'error: step 5[ :,]' err; then task=$((task + 3)); else task=$((task + 100)); fi # (between two programs)
done
what="task $task fails"
has err "step 5[ :,].*device emulated: program \"micro\", step [0-9]+ of [0-9]+, .* task $task of the first queue fails"
has runs/failed/result.json '"state":"failed"'
try 0 train $short --set run.name=failed; has err "continues after step 3 of 6"
cmp runs/whole/checkpoints/latest/model.safetensors runs/failed/checkpoints/latest/model.safetensors || bad "$what: another model"
rm -rf runs/failed
LOCKSTEP_EMULATED=fail=$task try 0 train $short --set run.name=failed --set failure.max_failures=1
has err "warning: .*device emulated: program \"micro\", .*; restart 1 of 1 in .* from step 3"
cmp runs/whole/checkpoints/latest/model.safetensors runs/failed/checkpoints/latest/model.safetensors || bad "$what: another model"
finish
