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

# ---- a stage is killed, is late, and the run goes on in other layouts
LOCKSTEP_FAULT=kill@200:rank=1 try 0 train llama.yaml --set run.name=killed "${two[@]}" --set failure.max_failures=20; same killed; has err "rank 1: killed by signal 9"
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
has out "a rank is idle for 60 % of a step, .* p = 4 stages and m = 2 micro-batches: a smaller train.micro_batch makes it less"
has out "mailboxes between stages"; has out "^bits    the same on 1, 2, 4, ... ranks"
try 0 plan llama.yaml "${two[@]}" --json; has out '"idle": *0.2'; has out '"stages": *\['
try 0 explain llama.yaml "${two[@]}" --rank 1
has out "receive activations of micro-batch 3 of stage 0  over pp, 2 ranks, 16384 B received"; has out "send gradients of micro-batch 3 of stage 1  over pp, 2 ranks, 16384 B sent"
has out "^1 x program micro \(16 samples each; micro-batches 0, 1, 2, 3 of 4\)"

try 0 plan llama.yaml "${two[@]}" --ranks-per-host 1 --network 5us,125MB/s; has out "^stages  stage 0 "

# ---- refusals
refused 2 "parallel.mesh.*8 stages \(axis pp\), but the model has 4 modules that units names" plan llama.yaml --workers 8 --set 'parallel.mesh={pp: 8}'
refused 2 "parallel.stages: 1 2 is 2 numbers with the sum 3, but there are 2 stages, and 4 modules" plan llama.yaml "${two[@]}" --set 'parallel.stages=[1, 2]'
refused 2 "parallel.schedule: one of 1f1b, gpipe is needed here" plan llama.yaml "${two[@]}" --set parallel.schedule=zero_bubble
refused 2 "parallel.units: none names no module" plan llama.yaml "${two[@]}" --set parallel.units=none
finish
