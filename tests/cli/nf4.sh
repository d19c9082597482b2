#!/usr/bin/env bash
# nf4.sh COMMAND - weights of 4 bits: the same bits on 1, 2 and 4 ranks, with recompute and after a resume on other ranks; axis tp; what is exported has the loss
# of the run; text is generated; what cannot be is refused by name.
source "$(dirname "$0")/common.sh"
for i in $(seq 40); do printf 'the quick brown fox %d jumps over the lazy dog\n' "$i"; done >text.txt
cat >base.yaml <<'EOT'
model: {type: llama, layers: 1, heads: 2, hidden_size: 128, mlp_size: 128, vocab_size: 257, tied: true}
data: {type: text, train_text: text.txt, eval_text: text.txt, tokenizer: bytes, seq_length: 16}
train: {steps: 4, global_batch: 4, micro_batch: 1}
optimizer: {type: adamw, lr: 0.02}
parallel: {units: "class:LlamaDecoderLayer"}
checkpoint: {every_steps: 2, keep: 1}
eval: {every_epochs: -1}
threads: 1
EOT
cat >nf4.yaml <<'EOT'
include: base.yaml
model: {base: nf4, init: runs/base/checkpoints/latest}
train: {freeze: "* !pattern:*norm*"}
EOT
try 0 train base.yaml
try 0 train nf4.yaml
as_one() { cmp runs/nf4/checkpoints/latest/model.safetensors "runs/$1/checkpoints/latest/model.safetensors" || bad "$what: other bits"; }
try 0 train nf4.yaml --set run.name=two --workers 2 --set parallel.recompute=units
as_one two
try 0 train nf4.yaml --set run.name=four --workers 4 --set parallel.data=ddp
as_one four
try 0 train nf4.yaml --set run.name=again --set train.steps=2 --workers 2
try 0 train nf4.yaml --set run.name=again
as_one again
try 0 train nf4.yaml --set run.name=split --workers 2 --set 'parallel.mesh={dp: 1, tp: 2}'

# ---- its numbers
loss() { try 0 eval "$@" --json && sed -E 's/.*"loss":([0-9.]+).*/\1/' out | tail -n 1; }
try 0 inspect runs/nf4
times 7 out "NF4 \\[128, 128\\]$"
first() { # of a run of one step: its loss, that of the initial weights
    try 0 train "$@" --set train.steps=1
    sed -nE 's/.*"kind":"step","step":1,.*"loss":([0-9.]+).*/\1/p' "runs/$name/metrics.jsonl"
}
mine=$(name=mine first nf4.yaml --set run.name=mine --set model.init=runs/nf4/checkpoints/latest)
try 0 export runs/nf4 --to numbers.safetensors --dtype f32
numbers=$(name=numbers first base.yaml --set run.name=numbers --set model.init=numbers.safetensors)
[ -n "$mine" ] && [ "$mine" = "$numbers" ] || bad "the run has a loss of $mine, its export $numbers"
[ "$(loss runs/nf4 | cut -c1-6)" = "$(loss runs/split | cut -c1-6)" ] || bad "axis tp: another loss"
try 0 predict runs/nf4 --prompt 'the quick' --tokens 4
try 0 plan nf4.yaml
has out "147968 parameters"

# ---- adapters beside it, over documents that are packed
cat >lora.yaml <<'EOT'
include: nf4.yaml
train: {freeze: "", lora: {rank: 4, dropout: 0.1}}
data: {pack: documents, documents: line, seq_length: 64}
precision: {param: bf16}
EOT
try 0 train lora.yaml
try 0 train lora.yaml --set run.name=lora2 --set train.steps=2 --workers 2
try 0 train lora.yaml --set run.name=lora2
cmp runs/lora/checkpoints/latest/adapter_model.safetensors runs/lora2/checkpoints/latest/adapter_model.safetensors || bad "$what: other adapters"
try 0 predict runs/lora --prompt 'the quick' --tokens 4
try 0 export runs/lora --merge --to merged.safetensors

# ---- refused
refused 1 'q_proj.weight has 4 bits a number \(base nf4\) and cannot be trained: freeze it, or use lora' train nf4.yaml --set run.name=bad --set train.freeze=model.norm
refused 1 '4 bits has blocks of 64 numbers' train nf4.yaml --set run.name=bad --set model.init=random --set model.mlp_size=96
refused 2 'has 1 blocks of 64 numbers, which the 2 ranks of axis tp do not divide' train nf4.yaml --set run.name=bad --set model.init=random --workers 2 \
    --set 'parallel.mesh={dp: 1, tp: 2}' --set model.mlp_size=64
refused 2 'model.base: nf4, but model.type unet has no linear layer' plan unet-segmentation --set model.base=nf4
mkdir gptq
cp runs/base/checkpoints/latest/model.safetensors gptq
sed 's/^{/{"quantization_config": {"quant_method": "gptq"},/' runs/base/checkpoints/latest/config.json >gptq/config.json
refused 1 'quantised by gptq; only NF4 of bitsandbytes is read' train nf4.yaml --set run.name=bad --set model.init=gptq
finish
