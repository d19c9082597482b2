#!/bin/bash
# t5_base.sh COMMAND GOLDEN - the recipe t5-base-wikihow at the size of the published t5-base: its plan with the tutorial's settings, on 1 to 8 ranks and as a run on
# four then has it; and ten steps on short texts, from a folder as Hugging Face has it, with random weights. About 4 GB of memory and of disk.
source "$(dirname "$0")/common.sh"
golden=$2
export LOCKSTEP_DATA=$work/data HF_HOME=$work/huggingface
mkdir -p data/data tokenizer
cp "$golden/tokenizer_unigram.json" tokenizer/tokenizer.json
{ echo headline,title,text; for i in $(seq 100); do echo "\"wash a cat, part $i\",\"How to wash cat $i\",\"Hold the cat. Pour $((i * 7919 % 613)) cups of water over it. Say that it is over.\""; done; } >data/data/wikihowAll.csv

# ---- planned: parameters in masters and two moments are sliced over the ranks, in whole cache lines; their copies in bf16 are there once for a host
number() { grep -oE "\"$1\":[0-9]+" out | head -n 1 | grep -oE '[0-9]+$'; }
refused 2 "model.init: google-t5/t5-base: no such file or folder: .*\`lockstep get google-t5/t5-base\` loads it" plan t5-base-wikihow
for ranks in 1 2 4; do
    try 0 plan t5-base-wikihow --set model.init=random --workers $ranks --set threads=1 --json
    p=222903552
    [ "$(number parameters)" = $p ] || bad "$what: $(number parameters) parameters"
    has out "\"optimizer\":$((8 * p / ranks + 128)),"
    [ $ranks = 1 ] || { has out "\"peak\":\{\"parameters\":$((4 * p / ranks)),"; has out "\"node\":$((2 * p)),"; }
done
try 0 plan t5-base-wikihow --set model.init=random --set threads=1
has out "samples of 512 and 150 tokens"; has out "fsdp in 25 units"
planned=$(sed -n 's/^memory *\([0-9.]* GiB\) a rank.*/\1/p' out)

# ---- the hub's t5-base: weights of that size
short="--set data.source_length=32 --set data.target_length=16 --set threads=1 --set eval.every_epochs=-1"
try 0 train t5-base-wikihow --workers 1 --set run.name=hub --set model.init=random --set data.tokenizer=tokenizer --set optimizer.type=sgd --set optimizer.weight_decay=0 \
    --set train.global_batch=1 --set train.micro_batch=1 --set train.steps=1 $short
has err "^init +random weights"
mkdir data/t5-base
mv runs/hub/checkpoints/latest/{config.json,model.safetensors} data/t5-base; cp tokenizer/tokenizer.json data/t5-base; rm -r runs/hub
has data/t5-base/config.json '"d_model":768'

# ---- the tutorial's run has the memory that was planned, up to its first step
try 0 train t5-base-wikihow --dry-run --set threads=1
has err "memory $planned planned"; has err "^ranks +4 on 1 host"; has err "222903552 parameters"

# ---- ten steps on two ranks, and a checkpoint
try 0 train t5-base-wikihow --workers 2 --set run.name=ten --set train.global_batch=2 --set train.micro_batch=1 --set train.steps=10 --set optimizer.lr=1e-4 --set log.every=1 $short
has err "^init +google-t5/t5-base"; has err "^epoch 0 +step 10/"
loss() { sed -n "s/.*\"step\":$1,.*\"loss\":\([0-9.]*\),.*/\1/p" runs/ten/metrics.jsonl; }
awk -v first="$(loss 1)" -v last="$(loss 10)" 'BEGIN { exit !(last < first - 1 && last > 0) }' || { bad "the loss goes from $(loss 1) to $(loss 10)"; cat runs/ten/metrics.jsonl; }
finish
