#!/bin/bash
# replicas.sh COMMAND - failure.digest_every: in every layout the digests of one process; a bit that flips on a rank ends the run with its name, and a restart
# continues from before it, to the files of an undisturbed run.
source "$(dirname "$0")/common.sh"

for i in $(seq 1 40); do echo "the $i. cat sat on the mat and ran up hill $((i * i % 97))"; done >text.txt
cat >llama.yaml <<EOF
model: {type: llama, vocab_size: 257, layers: 2, hidden_size: 32, heads: 4, mlp_size: 64, tied: true}
data: {type: text, train_text: text.txt, tokenizer: bytes, documents: line, seq_length: 16}
train: {steps: 6, epochs: 100, global_batch: 8, micro_batch: 2}
optimizer: {type: adamw, ema_decay: 0.9}
eval: {every_epochs: 0}
checkpoint: {every_epochs: 0, every_steps: 4}
failure: {digest_every: 2, stall_seconds: 60}
threads: 1
EOF
digests() { grep '"kind":"digest"' "runs/$1/metrics.jsonl" | sed 's/"seconds":[^,]*,"attempt":[0-9]*//'; }
layout() { # NAME WORKERS MESH ARGS...
    local name=$1
    try 0 train llama.yaml --set run.name="$name" --workers "$2" --set "parallel.mesh=$3" "${@:4}"
    diff <(digests whole) <(digests "$name") || bad "$what: other digests"
}

# ---- the same digests in every layout, and those of the checkpoints
try 0 train llama.yaml --set run.name=whole
times 3 runs/whole/metrics.jsonl '"kind":"digest"'
checkpoint() { sed -n 's/.*"checkpoint","step":4,.*\("model":"[0-9a-f]*","optimizer":"[0-9a-f]*"\).*/\1/p' "runs/$1/metrics.jsonl"; }
[ "$(grep -c "$(checkpoint whole)" runs/whole/metrics.jsonl)" = 2 ] || bad "the checkpoint of step 4 has another digest"
layout ddp 2 '{dp: 2}' --set parallel.data=ddp
layout fsdp 2 '{dp: 2}'; once err "failure.digest_every: no two ranks have the same parameters"
layout hybrid 4 '{dp: 2, shard: 2}' --set parallel.data=hybrid; times 0 err "no two ranks"
layout pipeline 4 '{dp: 2, pp: 2}' --set parallel.data=ddp --set parallel.units=class:LlamaDecoderLayer

try 0 train llama.yaml --set run.name=tensor --workers 2 --set 'parallel.mesh={tp: 2}' # other bits; the digest is that of the checkpoint
[ "$(grep -c "$(checkpoint tensor)" runs/tensor/metrics.jsonl)" = 2 ] || bad "$what: the checkpoint of step 4 has another digest"

# ---- a bit flips: the odd one is named; without a majority both are
LOCKSTEP_FAULT=flip@5:rank=2 refused 1 "^error: rank 2: after step 6 the copy of [a-z0-9_.]* on rank 2 \(host [^)]*\) is not that of ranks 0, 1 and 3.*: .*last the same after step 4; continue from step 4, runs/odd/checkpoints/latest, " \
    train llama.yaml --set run.name=odd --workers 4 --set parallel.data=ddp
LOCKSTEP_FAULT=flip@1:rank=1:seed=3 refused 1 "^error: rank 0: after step 2 the copies of [a-z0-9_.]* on ranks 0 \(host [^)]*\) and 1 \(host [^)]*\) differ, and no majority of 2 copies .*no checkpoint was saved before" \
    train llama.yaml --set run.name=two --workers 2 --set parallel.data=ddp
# a copy of half of a parameter, or of what tp does not divide
LOCKSTEP_FAULT=flip@1:rank=3 refused 1 "^error: rank 1: after step 2 the copies of [a-z0-9_.]* on ranks 1 .* and 3 " \
    train llama.yaml --set run.name=half --workers 4 --set 'parallel.mesh={dp: 2, shard: 2}' --set parallel.data=hybrid
LOCKSTEP_FAULT=flip@1:rank=1:seed=1 refused 1 "^error: rank 0: after step 2 the copies of model.embed_tokens.weight on ranks 0 .* and 1 " \
    train llama.yaml --set run.name=norm --workers 2 --set 'parallel.mesh={tp: 2}'
# copies are compared before a save: there is no checkpoint with the fault in it
LOCKSTEP_FAULT=flip@4:rank=1 refused 1 "after step 4 .* no checkpoint was saved before" train llama.yaml --set run.name=before --workers 4 --set parallel.data=ddp --set failure.digest_every=100
[ ! -e runs/before/checkpoints/latest ] || bad "$what: a checkpoint"
LOCKSTEP_FAULT=flip@5:rank=0 try 0 train llama.yaml --set run.name=again --workers 4 --set parallel.data=ddp --set failure.max_failures=1
once err "^warning: rank 0: after step 6 the copy of .* on rank 0 .*; restart 1 of 1 in 0.5 s from step 4, 2 steps are computed again"; same again
try 0 verify runs/again --from 0; has out "steps 1 to 6 have the same bits: 6 losses, 1 evaluation, 2 checkpoints, 3 digests"
try 0 verify runs/again --from 0 --to 2

# ---- what it costs
try 0 plan llama.yaml --workers 4 --set parallel.data=ddp
has out "^digests every 2 steps and before each checkpoint: a rank reads [0-9.]+ [KM]iB, about [0-9.]+ ms at [0-9.]+ GB/s \(measured now\)"; has out "4 ranks have the same parameters"
try 0 plan llama.yaml --workers 4 --json; has out '"digests":\{"every":2,"bytes":[0-9]+,"seconds":[0-9.e-]+,"copies":1\}'
LOCKSTEP_FAULT=flip@0 refused 2 "LOCKSTEP_FAULT=flip@0: expected KIND@WHERE" train llama.yaml --set run.name=wrong --workers 2
finish
