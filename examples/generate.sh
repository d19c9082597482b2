#!/bin/sh
# generate.sh GENERATE LOCKSTEP - the example continues a text as the command does.
set -eu
generate=$1 lockstep=$2
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
export LOCKSTEP_CACHE="$PWD/cache"
yes 'to be or not to be' | head -200 >be.txt
cat >be.yaml <<'END'
model: {type: llama, layers: 1, heads: 2, hidden_size: 16, mlp_size: 24}
data: {type: text, train_text: be.txt, documents: line, tokenizer: bytes, seq_length: 64, eval_fraction: 0.1}
train: {epochs: 1, global_batch: 4}
END
"$lockstep" train be.yaml --quiet
"$generate" runs/be/checkpoints/latest bytes 'to b' >one
"$lockstep" predict runs/be --prompt 'to b' --tokens 40 | head -c -1 >other
cmp one other
