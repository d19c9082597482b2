#!/bin/bash
# get.sh COMMAND - `lockstep get`: a model and a data set from a folder that stands for a server, into Hugging Face's cache and into a folder; found there
# by recipes and verbs; one message for what is wrong. (tests/net/test_hub.c has the network's failures.)
source "$(dirname "$0")/common.sh"
needs curl
unset HF_TOKEN HF_HUB_CACHE HF_HUB_OFFLINE HF_ENDPOINT
export HF_HOME=$work/huggingface

# ---- a small llama, trained here, is what the server has
cat >make.yaml <<END
run: {name: made}
model: {type: llama, vocab_size: 257, layers: 1, heads: 2, hidden_size: 16, mlp_size: 32}
data: {type: text, train_text: text.txt, tokenizer: bytes, documents: line, seq_length: 16}
train: {steps: 2, global_batch: 2}
eval: {every_epochs: -1}
threads: 1
END
for i in $(seq 200); do echo "the $i quick brown foxes jump over the lazy dog"; done >text.txt
try 0 train make.yaml
files=$hub/me/tiny/resolve/$commit
mkdir -p "$files/onnx" && cp runs/made/checkpoints/latest/{config.json,model.safetensors} "$files" && echo x >"$files/onnx/model.onnx" && echo y >"$files/README.md"
publish models/me/tiny "$(entry config.json "$files"),$(large model.safetensors "$files"),$(entry onnx/model.onnx "$files"),$(entry README.md "$files")"

try 0 get me/tiny --mirror "file://$hub" --list; has out "^model.safetensors .*yes"; has out "^onnx/model.onnx"
[ ! -e huggingface ] || bad "--list loads"
sed 's/made/again/; s/type: llama.*/type: llama, init: me\/tiny}/' make.yaml >use.yaml
refused 2 "model.init: me/tiny: no such file or folder: looked .*\`lockstep get me/tiny\` loads it" train use.yaml
(   # its config.json is enough to plan with, and not to train
    export HF_HOME=$work/partly
    try 0 get me/tiny config.json --mirror "file://$hub"
    for verb in plan explain inspect recipe; do HF_HUB_OFFLINE=1 try 0 $verb use.yaml; done
    refused 1 "^error: use.yaml:[0-9]*: model.init: $HF_HOME/.*: no weights in this folder, which has config.json; " train use.yaml
    exit $failures) || bad "a folder with config.json alone"
try 0 get me/tiny --mirror "file://$hub/"; once out "^me/tiny: 2 files, .* in $HF_HOME/hub/models--me--tiny/snapshots/$commit$"
try 0 get me/tiny --mirror "file://$hub/"; once out "\(0 B downloaded now, the rest was there\)$"
try 0 train use.yaml
try 0 inspect me/tiny; has out "embed_tokens"
try 0 export me/tiny --to tiny.safetensors
try 0 predict me/tiny --prompt "the" --tokens 3 --set data.tokenizer=bytes

# ---- every verb finds a folder or a file where `train` does: in LOCKSTEP_DATA, in the cache
mkdir -p sets/models "$LOCKSTEP_CACHE/data"
cp -r "$files" sets/models/little; cp -r "$files" "$LOCKSTEP_CACHE/data/kept"; cp "$files/model.safetensors" sets/alone.safetensors
export LOCKSTEP_DATA=$work/sets
for at in models/little kept other/little; do
    [ $at != other/little ] || mv sets/models/little sets/little # OWNER/NAME: the folder NAME
    try 0 train make.yaml --set model.init=$at --set run.name=from-${at%/*}
    try 0 inspect $at; has out "embed_tokens"
    try 0 export $at --to from.safetensors --force; cmp from.safetensors tiny.safetensors || bad "$what: other weights"
    try 0 predict $at --prompt "the" --tokens 3 --set data.tokenizer=bytes
done
try 0 inspect alone.safetensors; has out "embed_tokens"
refused 2 "other/nothing: no such folder; .*\(looked in this folder, in LOCKSTEP_DATA \($work/sets\) and in $LOCKSTEP_CACHE/data" predict other/nothing --prompt the
mkdir sets/mlp-mnist; cp "$files/config.json" sets/mlp-mnist; try 0 inspect mlp-mnist; has out "layers" # a bundled recipe is what the word says
unset LOCKSTEP_DATA

# ---- some files, into a folder; another file of that name stays
try 0 get me/tiny 'onnx/*' README.md --mirror "file://$hub" --to plain; cmp plain/onnx/model.onnx "$files/onnx/model.onnx"; cmp plain/README.md "$files/README.md"
echo mine >plain/README.md
refused 1 "plain/README.md: a file of another content" get me/tiny README.md --mirror "file://$hub" --to plain
once plain/README.md '^mine$'

# ---- a data set, which a recipe names
files=$hub/datasets/me/words/resolve/$commit
mkdir -p "$files/raw" && cp text.txt "$files/raw"
publish datasets/me/words "$(entry raw/text.txt "$files")"
sed 's/made/hub-data/; s/train_text: text.txt/train_text: datasets\/me\/words\/raw\/*.txt/' make.yaml >words.yaml
refused 2 "lockstep get datasets/OWNER/NAME" train words.yaml
try 0 get datasets/me/words --mirror "file://$hub"
try 0 train words.yaml
cmp runs/made/checkpoints/latest/model.safetensors runs/hub-data/checkpoints/latest/model.safetensors || bad "other weights from the same text"

# ---- one message
refused 2 "tiny: no name of a repository: OWNER/NAME" get tiny
refused 2 "\*.bin: no file of me/tiny has this name" get me/tiny '*.bin' --mirror "file://$hub"
refused 1 "me/none.*without a network, load me/none on a machine that has one" get me/none --mirror "file://$hub"
HF_HUB_OFFLINE=1 refused 1 "HF_HUB_OFFLINE=1 forbids the network" get me/tiny
refused 2 "needs NAME" get
echo damaged >"$hub/me/tiny/resolve/$commit/README.md"
refused 1 "README.md" get me/tiny README.md --mirror "file://$hub"
finish
