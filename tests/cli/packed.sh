#!/bin/bash
# packed.sh COMMAND - packed documents: the same bytes with every layout over ranks, with recompute, after a stop and on a device with memory of its own;
# the same losses whatever the windows are; what the log says of long documents; what is refused.
source "$(dirname "$0")/common.sh"

for i in $(seq 40); do printf 'the %d-th of the documents%*s\n' "$i" $((i * 7 % 31)) x; done >all.txt
cat >recipe.yaml <<'EOF'
model: {type: llama, layers: 2, heads: 2, kv_heads: 2, hidden_size: 16, mlp_size: 24, tied: true}
data: {type: text, train_text: all.txt, documents: line, tokenizer: bytes, seq_length: 128, eval_fraction: 0.2, pack: documents}
train: {epochs: 2, global_batch: 4, micro_batch: 1}
optimizer: {type: adamw, lr: 1e-2}
threads: 1
parallel: {units: "class:LlamaDecoderLayer"}
EOF
losses() { grep -oE '"(loss|perplexity)":[^,}]*' "runs/$1/metrics.jsonl"; }

try 0 train recipe.yaml --set run.name=whole
has err "data +text: [0-9]+ \+ [0-9]+ samples, all.txt \(32 of 40 documents, [0-9]+ tokens in all, tokenizer bytes; packed into [0-9]+ windows, [0-9.]+% full\)"
has runs/whole/recipe.yaml "pack: documents"
for options in "--workers 2" "--workers 4" "--workers 2 --set parallel.data=ddp" "--workers 2 --set parallel.recompute=units" "--set device=emulated"; do
    rm -rf runs/other
    try 0 train recipe.yaml --set run.name=other $options; same other
    [ "$(losses other)" = "$(losses whole)" ] || bad "$what: other losses"
done
try 0 train recipe.yaml --set run.name=parts --set train.steps=3
try 0 train recipe.yaml --set run.name=parts --set train.steps=0 --workers 2; same parts
# axis tp splits heads: on 4 ranks as on 2, and with sequence the same losses within rounding
tp=(--set "parallel.mesh={dp: auto, tp: 2}" --set train.steps=2)
try 0 train recipe.yaml --set run.name=tp --workers 2 "${tp[@]}"
try 0 train recipe.yaml --set run.name=tp4 --workers 4 "${tp[@]}"
cmp runs/tp/checkpoints/latest/model.safetensors runs/tp4/checkpoints/latest/model.safetensors || bad "$what: data ranks changed the weights"
try 0 train recipe.yaml --set run.name=sequence --workers 2 "${tp[@]}" --set parallel.sequence=true --set model.vocab_size=258
first() { losses "$1" | head -1 | cut -c1-11; }
[ "$(first tp)" = "$(first whole)" ] && [ "$(first sequence)" = "$(first whole)" ] || bad "axis tp: another loss: $(first tp; first sequence; first whole)"

# axis cp splits the tokens of a window: the same losses within rounding, alone and with the others; any layout continues
context() { try 0 train recipe.yaml --set run.name="$1" --workers "$2" --set "parallel.mesh=$3" "${@:4}"; [ "$(first "$1")" = "$(first whole)" ] || bad "$what: another loss: $(first "$1"; first whole)"; }
context cp2 2 "{cp: 2}" --set train.steps=2
context cptp 4 "{cp: 2, tp: 2}" --set train.steps=1 --set parallel.sequence=true --set model.vocab_size=258
context cp4 4 "{dp: auto, cp: 2}" --set train.steps=1 --set parallel.data=ddp
try 0 train recipe.yaml --set run.name=cp2 --set train.steps=0
[ "$(losses cp2 | tail -1 | cut -c1-14)" = "$(losses whole | tail -1 | cut -c1-14)" ] || bad "$what: another loss: $(losses cp2 | tail -1; losses whole | tail -1)"
# tokens that 2 cp does not divide are not dealt in two chunks
for m in "{dp: 1}" "{cp: 2}"; do try 0 train recipe.yaml --set run.name=odd"${m:1:2}" --workers $((${m:5:1})) --set "parallel.mesh=$m" --set data.seq_length=126 --set train.steps=1; done
[ "$(first oddcp)" = "$(first odddp)" ] || bad "126 tokens on axis cp: another loss: $(first oddcp; first odddp)"
refused 2 "positions has 128 tokens, which the 3 ranks of axis cp do not divide" plan recipe.yaml --workers 3 --set "parallel.mesh={cp: 3}"
refused 2 "axis cp splits the tokens of a sample, and the model has no input \[batch, tokens\]" plan vit-fashion-mnist --workers 2 --set "parallel.mesh={cp: 2}"
try 0 plan recipe.yaml --workers 2 --set "parallel.mesh={cp: 2}"; has out "activations linear \{cp: Shard\(0\)\}"
try 0 train recipe.yaml --set run.name=dropcp --workers 2 --set model.attention_dropout=0.2 --set train.steps=1 --set "parallel.mesh={cp: 2}"

# dropout of probabilities
for workers in 1 2; do try 0 train recipe.yaml --set run.name=drop$workers --workers $workers --set model.attention_dropout=0.2 --set train.steps=2; done
cmp runs/drop1/checkpoints/latest/model.safetensors runs/drop2/checkpoints/latest/model.safetensors || bad "$what: other weights than on one rank"
[ "$(losses drop1 | head -1)" != "$(losses whole | head -1)" ] || bad "$what: nothing was dropped"
[ "$(first dropcp)" = "$(first drop1)" ] || bad "axis cp drops others: $(first dropcp; first drop1)"

# an evaluation has the same bits whatever stands beside a document, and however wide the window is
loss() { grep -oE '"loss":[^,}]*' out; }
for precision in f32 bf16; do
    try 0 eval runs/whole --json --set precision.param=$precision; loss >narrow
    for length in 100 512; do
        try 0 eval runs/whole --json --set precision.param=$precision --set data.seq_length=$length
        loss | cmp - narrow || bad "$what: another loss: $(loss; cat narrow)"
    done
done
# documents that see each other are something else
try 0 eval runs/whole --json --set data.pack=true
! loss | cmp -s - narrow || bad "$what: the same loss"

# what the log and lockstep data say
for how in "cut:9 longer than 48 tokens cut, [0-9]+ tokens lost" "drop:[0-9]+ longer than 48 tokens dropped, [0-9]+ tokens lost" "split:[0-9]+ longer than 48 tokens split; packed"; do
    try 0 data recipe.yaml --set data.seq_length=48 --set data.too_long=${how%%:*}; has out "${how#*:}"
done
has out "positions +i32 \[48\]"
try 0 data recipe.yaml; has out "x \\| the [0-9]+-th of the documents +x"
try 0 plan recipe.yaml; has out "samples of 128 tokens"
try 0 explain recipe.yaml; has out "positions"
try 0 predict runs/whole --prompt "the 3" --tokens 4
try 0 predict runs/whole --prompt "the 3" --tokens 4 --json

refused 2 "data.pack: there is no 'document'; did you mean 'documents'" train recipe.yaml --set data.pack=document
refused 2 "data.too_long: has no effect with data.pack true" train recipe.yaml --set data.pack=true --set data.too_long=drop
refused 2 "too_long: every document of all.txt is longer than 4 tokens" train recipe.yaml --set run.name=x --set data.seq_length=4 --set data.too_long=drop
printf 'source,target\na,b\nc,d\n' >pairs.csv
echo '{model: {type: t5, layers: 1}, data: {type: pairs, train_text: pairs.csv, tokenizer: bytes, pack: documents}}' >pairs.yaml
refused 2 "data.pack: " train pairs.yaml --set run.name=x
finish
