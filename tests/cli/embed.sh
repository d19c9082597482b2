#!/usr/bin/env bash
# embed.sh COMMAND GOLDEN - sentence embeddings from pairs of texts: the losses of PyTorch in float64, also of an incomplete batch; the bits of one rank on
# several, with recompute and after a restart; an evaluation that does not depend on ranks; vectors of new texts; what does not fit is refused.
source "$(dirname "$0")/common.sh"
golden=$2
cat >embed.yaml <<EOT
model: {init: $golden, inputs: {query: [8], passage: [12]}, outputs: {vector: [16]}}
data: {type: arrays, train: {query: $golden/pairs.csv, passage: $golden/pairs.csv}, eval: {query: $golden/pairs.csv, passage: $golden/pairs.csv}, shuffle: false}
loss: {type: in_batch_negatives, of: vector}
train: {epochs: 6, global_batch: 8, micro_batch: 4}
optimizer: {type: adamw, lr: 1e-2, weight_decay: 0.01}
eval: {batch: 3}
checkpoint: {every_steps: 1}
threads: 1
EOT
numbers() { grep -o "\"$1\": \[[^]]*" "$golden/pairs.json" | tr -d '[' | cut -d: -f2 | tr ',' '\n'; }
# near WHAT COUNT TOLERANCE: ./have has the numbers of ./want
near() {
    paste have want | awk -v n="$2" -v tolerance="$3" '{ d = $1 - $2; if (d * d > tolerance * tolerance) bad = 1 } END { exit bad || NR != n }' ||
        { bad "$1: other numbers than PyTorch's"; paste have want; }
}
losses() { grep -o '"kind":"step".*' "runs/$1/metrics.jsonl" | grep -o '"loss":[^,]*' | cut -d: -f2 >have; }
whole() { cmp "runs/$1/checkpoints/latest/model.safetensors" "runs/$2/checkpoints/latest/model.safetensors" || bad "$what: another model than that of run $1"; }
evaluation() { grep '"kind":"eval"' "runs/$1/metrics.jsonl" | tail -n 1 | grep -o '"loss":.*"samples":[0-9]*'; }

try 0 train embed.yaml
losses embed; numbers losses >want; near "losses of six steps" 6 3e-6
try 0 train embed.yaml --set run.name=ranks --workers 2 --set parallel.units=class:BertLayer
whole embed ranks
[ "$(evaluation embed)" = "$(evaluation ranks)" ] || bad "$what: another evaluation: $(evaluation ranks) in place of $(evaluation embed)"
try 0 train embed.yaml --set run.name=recompute --set parallel.recompute=class:BertLayer
whole embed recompute
try 0 train embed.yaml --set run.name=tp --workers 2 --set "parallel.mesh={dp: auto, tp: 2}"
losses tp; near "losses with tensor parallelism" 6 1e-5
try 0 train embed.yaml --set run.name=twos --set train.micro_batch=2 --set model.dropout=0.1 --set model.attention_dropout=0.1
try 0 train embed.yaml --set run.name=fours --workers 4 --set train.micro_batch=2 --set model.dropout=0.1 --set model.attention_dropout=0.1
whole twos fours
[ "$(evaluation twos)" = "$(evaluation fours)" ] || bad "$what: another evaluation"
try 0 train embed.yaml --set run.name=stopped --set train.epochs=3
try 0 train embed.yaml --set run.name=stopped
whole embed stopped
# six samples, then two in a batch for six
try 0 train embed.yaml --set run.name=padded --set train.epochs=2 --set train.global_batch=6 --set train.micro_batch=6 --set train.drop_last=false
losses padded; numbers padded >want; near "losses with padding" 4 3e-6

# ---- the model as it begins: evaluated in threes and a rest of two, and its vectors
try 0 train embed.yaml --set run.name=start --set train.epochs=1 --set optimizer.lr=1e-30
evaluation start | grep -oE '(loss|accuracy)":[^,]*' | cut -d: -f2 >have; numbers evaluation >want; near "the evaluation" 2 1e-6
has runs/start/checkpoints/latest/config.json '"architectures":\["BertModel"\]'
printf 'text\n' >new.csv
cut -d, -f1 "$golden/pairs.csv" | sed -n 2,3p >>new.csv # (they have no commas)
try 0 predict runs/start new.csv:text --out new.out.csv
sed 1d new.out.csv | cut -d, -f2- | tr ',' '\n' >have
numbers vectors | head -n 32 >want
near "vectors" 32 1e-6
try 0 predict runs/start "$golden/pairs.csv" --output vector.passage --out passages.npy
[ "$(stat -c %s passages.npy)" = $((128 + 8 * 16 * 4)) ] || bad "$what: not 8 vectors of 16"
refused 2 'vector has 16 numbers for each sample: write them to a file' predict runs/start new.csv:text

# ---- what does not fit
more="--set run.name=no"
refused 2 'train.micro_batch: a batch of 1 has no other text' train embed.yaml $more --set train.micro_batch=1
refused 2 'a batch of 1 has no other text' train embed.yaml $more --set train.global_batch=2 --set train.micro_batch=0 --workers 2
refused 2 'compares two inputs' train embed.yaml $more --set "model.inputs={query: [8]}"
refused 2 'of one output \[hidden_size\], here \{vector: \[16\]\}' train embed.yaml $more --set "model.outputs={vector: [3]}"
refused 2 'write \{type: in_batch_negatives, of: vector\}' train embed.yaml $more --set "loss={type: in_batch_negatives, of: vectors}"
refused 2 'it has no target, weight, mask' train embed.yaml $more --set "loss={type: in_batch_negatives, of: vector, target: query}"
refused 2 'is for pairs of texts with model.type bert' train mlp-regression $more --set "loss={type: in_batch_negatives, of: y}"
refused 2 'a text is one column' train embed.yaml $more --set "data.train.query=$golden/pairs.csv:query,passage"
finish
