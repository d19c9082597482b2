#!/bin/bash
# experts.sh COMMAND - a mixture of experts: the same bytes with every layout over data ranks, with recompute, after a stop, with padding and on a device with
# memory of its own, and with the experts dealt to ranks; the same losses with the experts split over axis tp, or the tokens over axis cp; what is refused.
source "$(dirname "$0")/common.sh"

for i in $(seq 37); do printf 'the %d-th of the lines%*s\n' "$i" $((i * 7 % 31)) x; done >all.txt
cat >recipe.yaml <<'YAML'
model: {type: qwen2_moe, layers: 2, heads: 2, kv_heads: 2, hidden_size: 16, mlp_size: 24, vocab_size: 258, experts: 6, experts_per_token: 3, expert_size: 10,
        experts_every: 2, shared_expert_size: 12, balance: 0.05}
data: {type: text, train_text: all.txt, documents: line, tokenizer: bytes, seq_length: 32, eval_fraction: 0.2}
train: {steps: 5, global_batch: 8, micro_batch: 2}
optimizer: {type: adamw, lr: 1e-2}
threads: 1
parallel: {units: "class:Qwen2MoeDecoderLayer"}
YAML
same_weights() { cmp "runs/$1/checkpoints/latest/model.safetensors" "runs/$2/checkpoints/latest/model.safetensors" || bad "$what: other weights"; }

try 0 train recipe.yaml --set run.name=whole
for options in "--workers 2" "--workers 4" "--workers 2 --set parallel.data=ddp" "--workers 2 --set parallel.recompute=units" "--set threads=2" "--set device=emulated"; do
    rm -rf runs/other
    try 0 train recipe.yaml --set run.name=other $options; same_weights other whole
done
try 0 train recipe.yaml --set run.name=parts --set train.steps=3
try 0 train recipe.yaml --set run.name=parts --workers 2; same_weights parts whole
# a last batch with padding: each token still has experts of its own
for workers in 1 2; do try 0 train recipe.yaml --set run.name=pad$workers --workers $workers --set train.drop_last=false; done
same_weights pad1 pad2

# axis tp splits every expert: the same losses within rounding, and the same bits for data ranks beside it
losses() { grep -oE '"loss":[0-9.]{5}' "runs/$1/metrics.jsonl"; }
for options in "tp --workers 2" "tp4 --workers 4"; do try 0 train recipe.yaml --set run.name=$options --set "parallel.mesh={dp: auto, tp: 2}"; done
same_weights tp tp4
[ "$(losses tp)" = "$(losses whole)" ] || bad "axis tp: other losses"
# on axis cp each rank sorts its own tokens by expert
try 0 train recipe.yaml --set run.name=cp --workers 4 --set "parallel.mesh={cp: 2, tp: 2}"
[ "$(losses cp)" = "$(losses whole)" ] || bad "axis cp: other losses: $(losses cp; losses whole)"
# with sequence the tokens are whole where they go to experts: in f64 the norms of gradients are those of one process
norms() { grep -oE '"grad_norm":[0-9.]{14}' "runs/$1/metrics.jsonl"; }
wide="--set device=ref --set precision.param=f64 --set precision.reduce=f64 --set train.steps=2 --set train.clip_norm=100"
try 0 train recipe.yaml --set run.name=wide $wide
for options in "sequence --workers 2" "sequence4 --workers 4"; do
    try 0 train recipe.yaml --set run.name=$options $wide --set "parallel.mesh={dp: auto, tp: 2}" --set parallel.sequence=true
done
same_weights sequence sequence4
[ -n "$(norms wide)" ] && [ "$(norms sequence)" = "$(norms wide)" ] || bad "sequence: other gradients: $(norms sequence; norms wide)"

# axis ep deals the experts to ranks: the same bytes, also beside other axes, from and to checkpoints of any layout, with padding
dealt() { # WORKERS MESH LIKE OPTIONS
    rm -rf runs/other
    try 0 train recipe.yaml --set run.name=other --workers "$1" --set "parallel.mesh=$2" "${@:4}"; same_weights other "$3"
}
try 0 train recipe.yaml --set run.name=muon --set optimizer.type=muon
dealt 2 "{ep: 2}" whole --set parallel.offload=cpu --set optimizer.ema_decay=0.9
dealt 4 "{dp: 2, ep: 2}" whole --set parallel.data=ddp --set failure.digest_every=1
dealt 2 "{ep: 2}" whole --set device=emulated
dealt 4 "{shard: 2, ep: 2}" muon --set optimizer.type=muon
refused 2 "parallel.mesh: optimizer adafactor keeps moments of rows and columns on every rank, and with axis ep ranks have different parameters; use adamw" \
    train recipe.yaml --set run.name=bad --workers 2 --set "parallel.mesh={ep: 2}" --set optimizer.type=adafactor --set optimizer.relative_step=false
try 0 train recipe.yaml --set run.name=dealt --workers 2 --set "parallel.mesh={ep: 2}" --set train.steps=3
try 0 train recipe.yaml --set run.name=dealt --workers 2; same_weights dealt whole
rm -rf runs/dealt
try 0 train recipe.yaml --set run.name=dealt --set train.steps=3
try 0 train recipe.yaml --set run.name=dealt --workers 2 --set "parallel.mesh={ep: 2}"; same_weights dealt whole
try 0 train recipe.yaml --set run.name=pad3 --workers 2 --set train.drop_last=false --set "parallel.mesh={ep: 2}"; same_weights pad3 pad1
try 0 eval runs/dealt --workers 2 --json; try 0 predict runs/dealt --prompt "the 3" --tokens 4
refused 2 "the 4 ranks of axis ep do not divide the 6 experts of model.layers.1.mlp" train recipe.yaml --set run.name=bad --workers 4 --set "parallel.mesh={ep: 4}"
refused 2 "write ep behind dp" train recipe.yaml --set run.name=bad --workers 4 --set "parallel.mesh={ep: 2, dp: 2}"
try 2 train recipe.yaml --set run.name=room --workers 2 --set "parallel.mesh={ep: 2}" --set parallel.expert_room=1
has err "rows for its experts, and has room for 193"

# each loss has its name, perplexity is that of the cross-entropy, a step counts targets
try 0 eval runs/whole --json
number() { grep -oE "\"$1\": ?[^,}]*" out | grep -oE '[0-9.]+$'; }
awk -v l="$(number loss)" -v c="$(number cross_entropy)" -v b="$(number balance)" -v p="$(number perplexity)" 'BEGIN {
    exit !(b > 2.9 && b < 6 && (l - c - 0.05 * b) ^ 2 < 1e-10 && (p / exp(c) - 1) ^ 2 < 1e-10) }' || bad "eval: $(cat out)"
awk -v n="$(number busiest_expert)" 'BEGIN { exit !(n >= 1 && n <= 2) }' || bad "busiest_expert: $(cat out)"
[ "$(grep -oE '"targets":[0-9]+' runs/whole/metrics.jsonl | head -1 | cut -d: -f2)" -gt 100 ] || bad "a step counts targets"
try 0 eval runs/whole --json --set model.balance=0; has out '"balance":'
try 0 predict runs/whole --prompt "the 3" --tokens 4
try 0 plan recipe.yaml --json

# more operands than a mask has bits
try 0 train recipe.yaml --set run.name=many --set model.experts=100 --set train.steps=1
try 0 train recipe.yaml --set run.name=many2 --set model.experts=100 --set train.steps=1 --workers 2 --set "parallel.mesh={tp: 2}"

# adapters beside experts of 4 bits a number: the scopes of a rank's experts are all that differs in its programs
sizes="--set model.hidden_size=64 --set model.mlp_size=64 --set model.expert_size=64 --set model.shared_expert_size=64"
try 0 train recipe.yaml --set run.name=base $sizes --set train.steps=1
packed="$sizes --set model.init=runs/base/checkpoints/latest --set model.base=nf4 --set train.lora.rank=2 --set train.steps=2"
try 0 train recipe.yaml --set run.name=packed $packed
try 0 train recipe.yaml --set run.name=packed2 $packed --workers 2 --set "parallel.mesh={ep: 2}"
cmp runs/packed/checkpoints/latest/adapter_model.safetensors runs/packed2/checkpoints/latest/adapter_model.safetensors || bad "ep: other adapters"

# adapters; what is refused
try 0 train recipe.yaml --set run.name=lora --set model.init=runs/whole/checkpoints/latest --set train.lora.rank=2
try 2 train recipe.yaml --set run.name=bad --set model.init=runs/whole/checkpoints/latest --set train.lora.rank=2 --set train.lora.targets=experts
has err "the model has no linear layer whose name ends so"
try 2 train recipe.yaml --set run.name=bad --set model.experts_per_token=7; has err "model.experts_per_token: a token cannot go to 7 experts of 6"
try 2 train recipe.yaml --set run.name=bad --set model.experts=0; has err "model.experts: 0 is out of range"
finish
