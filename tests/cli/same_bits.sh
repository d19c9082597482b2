#!/usr/bin/env bash
# same_bits.sh COMMAND ROOT - the quickstart's own recipe, the template and bundled recipes give the same weights on 1, 2 and 4 ranks; `train` and `plan` say
# whether a layout keeps the bits of one process, and if not, why; and so does the comment of every bundled recipe.
source "$(dirname "$0")/common.sh"
root=$2
sed -n '/^```yaml file=first.yaml/,/^```$/p' "$root/docs/start/quickstart.md" | grep -v '```' >first.yaml
sed 's/, path: .*}}/}/; s/type: module, config: .*}}/type: shapes}/; s/type: module}/type: mlp, image_size: 28, classes: 10, hidden: [8]}/' "$root/templates/new/recipe.yaml" >new.yaml
idx_data data/mnist 256 64 28
export LOCKSTEP_DATA=$work/data
# bits RECIPE OPTIONS...: on 1, 2 and 4 ranks
bits() {
    local recipe=$1 n; shift
    for n in 1 2 4; do
        try 0 train "$recipe" --workers $n --set run.name=on-$n --set threads=1 --set train.steps=6 "$@"
        has err '^bits   the same on 1, 2, 4, \.\.\. ranks in any layout, with train.micro_batch [0-9]+$'
        cmp runs/on-1/checkpoints/latest/model.safetensors runs/on-$n/checkpoints/latest/model.safetensors || bad "$what: other weights than on one rank"
    done
    try 0 plan "$recipe" --workers 4 "$@"; has out '^bits    the same on 1, 2, 4'
    rm -r runs
}
bits first.yaml
bits mlp-mnist
bits new.yaml
idx_data data/fashion-mnist 256 64 28 # the others, with the line that their comments name
bits vit-fashion-mnist --set train.micro_batch=32 --set train.steps=2

# ---- slices: any number of ranks on axes tp and cp, also one after the other in a run; and what they cost
for i in $(seq 60); do echo "line $i says no more than that it is line $i"; done >text.txt
cat >slices.yaml <<EOT
model: {type: llama, vocab_size: 260, layers: 1, heads: 2, kv_heads: 2, hidden_size: 8, mlp_size: 16, tied: true}
data: {type: text, train_text: text.txt, tokenizer: bytes, documents: line, eval_fraction: 0.1, seq_length: 16}
train: {steps: 4, global_batch: 2, micro_batch: 1}
parallel: {slices: 2, tensor: "colwise:gate_proj colwise:up_proj rowwise:down_proj"}
threads: 1
EOT
weights() { sed -n 's/.*"model":"\([^"]*\)","optimizer":"\([^"]*\)".*/\1 \2/p' "runs/$1/metrics.jsonl" | tail -1; }
try 0 train slices.yaml --set run.name=one; has err '^bits   the same on .*, with train.micro_batch 1 and parallel.slices 2$'
try 75 train slices.yaml --set run.name=two --workers 2 --set 'parallel.mesh={tp: 2}' --until 2
try 0 train slices.yaml --set run.name=two --workers 2 --set 'parallel.mesh={cp: 2}'
[ -n "$(weights one)" ] && [ "$(weights two)" = "$(weights one)" ] || bad "tp, then cp with slices: $(weights two), on one rank $(weights one)"
try 0 verify runs/one
try 0 eval runs/one --json # of its recipe parallel.tensor counts, which on one rank has no effect without slices
loss() { sed -n "s/.*\"loss\":\([0-9.]*\).*/\1/p" "$1" | tail -1; }
grep '"kind":"eval"' runs/one/metrics.jsonl >evaluations
[ "$(loss out)" = "$(loss evaluations)" ] || bad "eval: loss $(loss out), in the run $(loss evaluations)"
try 0 train slices.yaml --set run.name=none --workers 2 --set 'parallel={mesh: {tp: 2}, slices: 0}'
[ "$(weights none)" != "$(weights one)" ] || bad "tp without slices has the bits of one rank: the text above says nothing"
has err '^bits   not promised .* parallel.slices keeps them$'
# beside adapters with dropout, 4-bit weights, moving averages and memory of the host
sizes=(--set model.hidden_size=128 --set model.mlp_size=128 --set train.steps=2)
try 0 train slices.yaml --set run.name=base "${sizes[@]}"
more=("${sizes[@]}" --set model.init=runs/base/checkpoints/latest --set model.base=nf4 --set train.lora.rank=2 --set train.lora.dropout=0.1
    --set optimizer.ema_decay=0.9 --set eval.ema=true
    --set parallel.offload=cpu)
try 0 train slices.yaml --set run.name=more "${more[@]}"
try 0 train slices.yaml --set run.name=more4 "${more[@]}" --workers 4 --set 'parallel.mesh={cp: 2, tp: 2}'
evaluated() { sed -n 's/.*"kind":"eval".*"loss":\([0-9.]*\).*/\1/p' "runs/$1/metrics.jsonl" | tail -1; }
[ -n "$(weights more)" ] && [ "$(weights more4) $(evaluated more4)" = "$(weights more) $(evaluated more)" ] || bad "slices beside adapters: other bits on four ranks"
try 0 plan slices.yaml; has out '^slices  2; without them a step takes [0-9.]+ [KM]iB, [0-9.]+ GFLOP, [0-9]+ kernels instead of [0-9]+'
has out '^bits    the same on 1, 2, 4, .* parallel.slices 2 \(up to 2 ranks on axis tp and on axis cp\)$'
rm -r runs

# ---- every bundled recipe: what plan says on 1, 2 and 4 ranks (with tp on 2 and 4) is one answer; where it is no, the recipe says in a comment what decides its bits
kept=0 others=0
for path in "$root"/recipes/*.yaml; do
    recipe=$(basename "$path" .yaml) answers= ranks="1 2 4"
    ! grep -q 'tp: 2' "$path" || ranks="2 4"
    for n in $ranks; do
        try 0 plan "$recipe" --workers $n --set model.init=random
        answers+=$(sed -n 's/^bits    \(the same on 1, 2, 4\|not promised\).*/\1;/p' out)
    done
    case $answers in
    "the same on 1, 2, 4;the same on 1, 2, 4;the same on 1, 2, 4;")
        kept=$((kept + 1)); ! grep -q '^#.* bits' "$path" || bad "$recipe keeps its bits, and its comment says something else"
        ;;
    "not promised;not promised;" | "not promised;not promised;not promised;")
        others=$((others + 1)); grep -q '^#.* other bits' "$path" || bad "$recipe does not say that other numbers of ranks give other bits"
        ;;
    *) bad "$recipe on $ranks ranks: the answers differ: $answers" ;;
    esac
done
[ $((kept + others)) = "$(ls "$root"/recipes/*.yaml | wc -l)" ] && [ $kept -ge 6 ] || bad "$kept bundled recipes keep their bits, and $others do not"

why() { try 0 plan "${@:2}"; has out "^bits    not promised to be those of other layouts: $1"; }
why 'train.micro_batch is not set, so it is global_batch / data ranks, 64 here; a number in the recipe, as 16' mlp-mnist --set train.micro_batch=0
why 'precision.reduce: sums over ranks are rounded to a 16-bit type' mlp-mnist --workers 2 --set precision.reduce=bf16
why 'the sum over ranks .* power of two|the sum over micro-batches .* power of two' mlp-mnist --workers 3 --set train.global_batch=48
why 'train.accumulate: running' mlp-mnist --set train.accumulate=running
try 0 train mlp-mnist --set train.micro_batch=0 --set train.steps=1 --set threads=1
has err '^bits   not promised to be those of other layouts: train.micro_batch is not set'
finish
