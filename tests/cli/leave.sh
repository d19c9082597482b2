#!/bin/bash
# leave.sh COMMAND GOLDEN - a text model takes its tokenizer along: checkpoints have its files, and folders for transformers and GGUF files for llama.cpp are made of them.
# (`make parity` runs what comes out.)
source "$(dirname "$0")/common.sh"
golden=$2
cat >recipe.yaml <<EOF
model: {type: qwen2, init: $golden}
data: {type: text, train_text: $golden/text.txt, tokenizer: bytes, documents: line, pack: false, seq_length: 32}
train: {steps: 2, global_batch: 2}
eval: {every_epochs: -1}
threads: 1
EOF
# text ARGS...: the text that `predict` makes
text() { "$lockstep" predict "$@" --prompt "the" --tokens 12 2>err || bad "predict $*: $(cat err)"; }
files() { ls "$1" | tr '\n' ' '; }

# ---- a checkpoint: also of the tokenizer without a file
try 0 train recipe.yaml --set run.name=one
try 0 inspect runs/one --verify; has out "every byte of 6 files matches"
[ "$(files runs/one/checkpoints/latest)" = "config.json manifest.json model.safetensors optimizer.safetensors tokenizer.json tokenizer_config.json trainer.json " ] || bad "$what: other files: $(files runs/one/checkpoints/latest)"

# ---- a folder for transformers; from it a run without a word of the tokenizer, which it keeps when the folder is gone
try 0 export runs/one --to hf/; has out "^hf/: .* tensors, a folder for transformers, from runs/one"
[ "$(files hf)" = "config.json model.safetensors tokenizer.json tokenizer_config.json " ] || bad "$what: other files: $(files hf)"
[ "$(text hf)" = "$(text runs/one)" ] || bad "predict of the folder: another text"
printf '{{ messages }}' >hf/chat_template.jinja; echo '{"eos_token_id": [256, 10]}' >hf/generation_config.json
sed "s#^data.*#data: {type: text, train_text: $golden/text.txt, documents: line, pack: false, seq_length: 32}#" recipe.yaml >short.yaml
try 0 train short.yaml --set model.init=hf --set run.name=two --set checkpoint.export=there/ --set train.steps=1
has err "there/: .* tensors, a folder for transformers"
has runs/two/recipe.yaml 'tokenizer: "?hf'
try 0 export runs/two --to two/ --dtype bf16; has two/config.json '"torch_dtype": "bfloat16"'; has two/chat_template.jinja "messages"; cmp hf/generation_config.json two/generation_config.json || bad "$what: no generation settings"
[ "$(files two)" = "$(files runs/two/there)" ] || bad "$what: checkpoint.export has other files"
before=$(text runs/two)
mkdir data; mv hf data/
[ "$(text runs/two)" = "$before" ] || bad "a checkpoint needs the folder that it came from"
export LOCKSTEP_DATA=$PWD/data
for name in hf me/hf; do # in LOCKSTEP_DATA, by its name and by that of the hub
    text $name >/dev/null; try 0 inspect $name; try 0 export $name --to found/ --force
    try 0 train short.yaml --set model.init=$name --dry-run
done
unset LOCKSTEP_DATA

# ---- a folder is replaced only if it is a model's, and never half written
refused 2 "two/: already there; --force replaces it" export runs/one --to two/
try 0 export runs/one --to two/ --force; [ ! -e two/chat_template.jinja ] || bad "$what: a file of the old folder"
touch two/mine; refused 2 "two: only a folder that holds a model and nothing else is replaced, and it has mine" export runs/one --to two/ --force; rm two/mine
refused 2 "model.safetensors: has no config.json, which a folder for transformers needs" export "$golden/model.safetensors" --to other/
(failures=0; ulimit -f 8; refused 1 "large" export runs/one --to full/; exit $failures) || bad "a file that may not grow"
[ ! -e full ] && ! files . | grep -q unfinished || bad "half a folder stays: $(ls -A)"

# ---- GGUF: the same weights and tokenizer are the same bytes
try 0 export runs/one --to one.gguf; try 0 inspect one.gguf
for line in 'general.architecture  "qwen2"' 'qwen2.attention.head_count_kv  2' 'tokenizer.ggml.pre  "gpt-2"' 'tokenizer.ggml.tokens  \{"items": 257' 'tokenizer.ggml.eos_token_id  256' 'tokenizer.ggml.add_bos_token  false'; do has out "^$line"; done
try 0 inspect one.gguf --json; has out '"keys":\{"general.architecture":"qwen2"'
try 0 inspect one.gguf --html one.html
mkdir plain; cp "$golden"/{config.json,model.safetensors} runs/one/checkpoints/latest/tokenizer*.json plain
try 0 export plain --to plain.gguf; cksum <plain.gguf >sum; has sum "^3684779802 101504$"
for type in f32 f16 bf16 q8_0 q4_0 q4_k_m; do try 0 export plain --to $type.gguf --type $type; done
has err "matrices have rows that are not whole blocks of 256: they take types with smaller blocks"
cmp f32.gguf plain.gguf || bad "unchanged is not f32"
try 0 inspect q8_0.gguf; has out "Q8_0"; has out "F32"
try 0 export f32.gguf --to back.safetensors; try 0 inspect back.safetensors; has out "token_embd"
refused 1 "is stored as Q8_0, which cannot be loaded" export q8_0.gguf --to back.pt
refused 2 "plain.gguf: already there" export plain --to plain.gguf
if [ -c /dev/full ]; then
    ln -s /dev/full full.gguf; refused 1 "full.gguf: .*No space left" export plain --to full.gguf --force; rm full.gguf
fi
(failures=0; ulimit -f 8; refused 1 "large" export plain --to cut.gguf; exit $failures) || bad "a file that may not grow"
! ls -A | grep -q "cut.gguf" || bad "half a file stays"

# ---- refused, each with its reason
refused 2 "--type needs --to FILE.gguf, not --to x.pt" export plain --to x.pt --type q8_0
refused 2 "--dtype and --to x.gguf: " export plain --to x.gguf --dtype bf16
refused 2 "must end in .safetensors, .pt, .gguf, .dcp .* or / " export plain --to x.onnx
refused 2 "GGUF needs the model's settings and its tokenizer beside the weights" export plain/model.safetensors --to x.gguf
refused 1 "plain.gguf: a file for llama.cpp, from which nothing is trained" train recipe.yaml --set model.init=plain.gguf --set run.name=no
mkdir bad; change() { cp plain/* bad/; sed -i "$2" "bad/$1"; }
change tokenizer.json 's/"use_regex": *true/"use_regex": false/; s/"merges": *\[\]/"merges":[["a","b"]]/; s/"Ā"/"ab"/'
refused 1 "this one \(bytes\) is none of those that this version knows: gpt-2, qwen2" export bad --to x.gguf
change tokenizer.json 's/"pre_tokenizer"/"normalizer":{"type":"NFKC"},"pre_tokenizer"/'; refused 1 "no such normalizer" export bad --to x.gguf
change config.json 's/"vocab_size": [0-9]*/"vocab_size": 20/'; refused 1 "no table of embeddings with vocab_size rows" export bad --to x.gguf
change config.json 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 9/'; refused 1 "its weights have no whole layer 2" export bad --to x.gguf
change config.json 's/x/x/'; rm bad/tokenizer.json; refused 2 "no tokenizer.json, and a GGUF file contains the tokenizer" export bad --to x.gguf
head -c 4000 plain.gguf >short.gguf; refused 1 "short.gguf: .* the file is (cut or )?damaged" inspect short.gguf
[ ! -e x.gguf ] || bad "a refused export wrote a file"
finish
