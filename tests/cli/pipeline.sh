#!/bin/bash
# pipeline.sh COMMAND - a model in stages: a run of two, three and four stages ends with the files of one process, also after a stage was killed, and goes on in
# any other layout; `plan` and `explain` show the stages; what cannot be is refused.
source "$(dirname "$0")/common.sh"

for i in $(seq 1 72); do echo "the $i. cat sat on the mat and ran up hill $((i * i % 97))"; done >text.txt
cat >llama.yaml <<EOF
model: {type: llama, vocab_size: 257, layers: 4, hidden_size: 32, heads: 4, mlp_size: 64, tied: true}
data: {type: text, train_text: text.txt, eval_fraction: 0.2, tokenizer: bytes, documents: line, seq_length: 32}
train: {epochs: 2, global_batch: 16, micro_batch: 4, clip_norm: 1}
optimizer: {type: adamw, lr: 3e-3, ema_decay: 0.9}
parallel: {units: "class:LlamaDecoderLayer"}
checkpoint: {every_steps: 2}
failure: {stall_seconds: 60}
threads: 1
EOF
sed 's/^model.*/model: {type: gpt2, vocab_size: 257, layers: 3, hidden_size: 32, heads: 4, mlp_size: 64, dropout: 0.1}/; s/class:LlamaDecoderLayer/pattern:transformer.h.*/' llama.yaml >gpt2.yaml
two=(--workers 2 --set 'parallel.mesh={pp: 2}')

# ---- bits
try 0 train llama.yaml --set run.name=whole
try 0 train llama.yaml --set run.name=two "${two[@]}"; same two; has err "each rank, which is idle for 20 % of a step"; times 0 err "bits   not promised"
losses() { grep -o '"loss":[^,]*' "runs/$1/metrics.jsonl"; }
diff <(losses whole) <(losses two) || bad "other losses"
try 0 train llama.yaml --set run.name=four --workers 4 --set 'parallel.mesh={dp: 2, pp: 2}' --set parallel.schedule=gpipe; same four

try 0 train llama.yaml --set run.name=weights --workers 4 --set 'parallel.mesh={pp: 4}' --set parallel.schedule=zero_bubble; same weights; has err "idle for 20 % of a step"
try 0 train llama.yaml --set run.name=chunks --workers 4 --set 'parallel.mesh={dp: 2, pp: 2}' --set parallel.schedule=interleaved; same chunks
digests() { grep -o '"kind":"checkpoint","step":[0-9]*\|"model":"[0-9a-f]*","optimizer":"[0-9a-f]*"' "runs/$1/metrics.jsonl"; }
diff <(losses whole) <(losses weights) || bad "other losses with zero_bubble"
[ -n "$(digests whole)" ] && diff <(digests whole) <(digests weights) || bad "other digests with zero_bubble"
diff <(digests whole) <(digests chunks) || bad "other digests with interleaved"

# ---- the gradient of a micro-batch is added at once: with more micro-batches no more of them are alive
gradients() { try 0 plan llama.yaml "${two[@]}" --set model.hidden_size=256 --set parallel.data=ddp --set parallel.recompute=units --set train.micro_batch=1 --set train.accumulate=running --set precision.param=bf16 --set train.global_batch="$1" --json; grep -o '"gradients":[0-9]*' out | head -n 1; }
few=$(gradients 4) many=$(gradients 32)
[ -n "$few" ] && [ "$few" = "$many" ] || bad "at the worst moment $few bytes with 4 micro-batches, $many with 32"

# ---- a stage is killed, is late, and the run goes on in other layouts
for schedule in 1f1b zero_bubble interleaved; do
    LOCKSTEP_FAULT=kill@200:rank=1 try 0 train llama.yaml --set run.name=killed-$schedule "${two[@]}" --set failure.max_failures=20 --set parallel.schedule=$schedule
    same killed-$schedule; has err "rank 1: killed by signal 9"
done
try 0 train llama.yaml --set run.name=moved "${two[@]}" --set train.steps=2
LOCKSTEP_FAULT=delay@random:seconds=0.002:seed=5 try 0 train llama.yaml --set run.name=moved --set train.steps=5 --workers 4 --set 'parallel.mesh={pp: 4}'
try 0 train llama.yaml --set run.name=moved --set train.steps=0; has err "continues after step 5"; same moved
LOCKSTEP_FAULT=drop@85:rank=0 try 1 train llama.yaml --set run.name=late "${two[@]}" --set failure.stall_seconds=1
has err "rank 0: did not come within 1 s; rank 1 waited for it in receive of activations of micro-batch [0-9] of stage 0 over pp, program micro"

# ---- masks of dropout, three stages, no clipping
rm -r runs/whole
try 0 train gpt2.yaml --set run.name=whole --set train.clip_norm=0
try 0 train gpt2.yaml --set run.name=three --set train.clip_norm=0 --workers 3 --set 'parallel.mesh={pp: 3}'; same three

# ---- what plan and explain say
try 0 plan llama.yaml --workers 4 --set 'parallel.mesh={pp: 4}' --set train.micro_batch=8
has out "^stages  stage 0 \(rank 0\): .* a rank, 18528 parameters"; has out "^        stage 3 \(rank 3\): .* a rank, 10336 parameters"
has out "a rank is idle for 60 % of a step with 1f1b, p = 4 ranks and m = 2 micro-batches, if all stages take equally long; a smaller train.micro_batch makes it less"
has out "mailboxes between stages"; has out "^bits    the same on 1, 2, 4, ... ranks"
try 0 plan llama.yaml "${two[@]}" --json; has out '"idle": *0.2'; has out '"stages": *\['
try 0 plan llama.yaml "${two[@]}" --set parallel.schedule=interleaved; has out "^stages  stages 0, 2 \(rank 0\): .* a rank, 28832 parameters"
try 0 plan llama.yaml "${two[@]}" --compare parallel.schedule=gpipe,1f1b,zero_bubble,interleaved; has out "^of it, ranks wait for stages +20 % +20 % +8 % +11 %"
try 0 explain llama.yaml "${two[@]}" --rank 1
has out "receive activations of micro-batch 3 of stage 0  over pp, 2 ranks, 16384 B received"; has out "send gradients of micro-batch 3 of stage 1  over pp, 2 ranks, 16384 B sent"
has out "^1 x program micro \(16 samples each; micro-batches 0, 1, 2, 3 of 4\)"

try 0 plan llama.yaml "${two[@]}" --ranks-per-host 1 --network 5us,125MB/s; has out "^stages  stage 0 "

# ---- refusals
refused 2 "parallel.mesh.*8 stages \(axis pp\), but the model has 4 modules that units names" plan llama.yaml --workers 8 --set 'parallel.mesh={pp: 8}'
refused 2 "parallel.stages: 1 2 is 2 numbers with the sum 3, but there are 2 stages, and 4 modules" plan llama.yaml "${two[@]}" --set 'parallel.stages=[1, 2]'
refused 2 "parallel.schedule: one of 1f1b, gpipe, zero_bubble, interleaved is needed here" plan llama.yaml "${two[@]}" --set parallel.schedule=dualpipe
refused 2 "parallel.schedule: interleaved needs a number of micro-batches that 2 ranks of the pipeline divide, and each rank has 1" plan llama.yaml "${two[@]}" --set parallel.schedule=interleaved --set train.micro_batch=16
refused 2 "parallel.chunks .*: 2 chunks on each of 3 ranks are 6 stages, which do not divide the 9 modules" plan llama.yaml --workers 3 --set 'parallel.mesh={pp: 3}' --set parallel.schedule=interleaved --set model.layers=9 --set train.global_batch=24
refused 2 "parallel.mesh.*: optimizer adafactor keeps moments of rows and columns on every rank, and with axis pp ranks have different parameters; use adamw" \
    plan llama.yaml "${two[@]}" --set optimizer.type=adafactor --set optimizer.relative_step=false
refused 2 "parallel.units: none names no module" plan llama.yaml "${two[@]}" --set parallel.units=none
finish
