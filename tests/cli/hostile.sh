#!/usr/bin/env bash
# hostile.sh COMMAND - inputs that would crash, hang or fill a program that trusts them: each ends at once, with one message that says which it was.
source "$(dirname "$0")/common.sh"
cat >idx.yaml <<END
model: {type: mlp, image_size: 2, hidden: [], classes: 2}
data: {type: idx, train_images: images, train_labels: labels, eval_images: images, eval_labels: labels}
train: {epochs: 1000000, global_batch: 32}
eval: {every_epochs: 0}
checkpoint: {every_epochs: -1}
threads: 1
END
cat >text.yaml <<END
model: {type: qwen2, layers: 1, hidden_size: 16, heads: 2, kv_heads: 2, mlp_size: 16, vocab_size: 300}
data: {type: text, train_text: words.txt, eval_text: words.txt, tokenizer: bytes, seq_length: 8}
train: {epochs: 1, global_batch: 4}
threads: 1
END
echo "some words that are not real text" >words.txt

# ---- a file is cut short while a run reads it: with one process, with two
cut_short() { # WORKERS RANK
    { printf '\000\000\010\003\000\000\000\100\000\000\000\002\000\000\000\002'; head -c 256 /dev/zero; } >images
    { printf '\000\000\010\001\000\000\000\100'; head -c 64 /dev/zero; } >labels
    what="a file cut short, $1 workers"
    "$lockstep" train idx.yaml --set run.name="cut$1" --workers "$1" >out 2>err </dev/null &
    local child=$!
    until_true test -s "runs/cut$1/metrics.jsonl"
    : >images
    wait $child
    local got=$?
    [ $got -eq 1 ] || { bad "$what: exit status $got instead of 1"; cat err; }
    once err "^error: ${2}$work/images: a part of it is gone: the file was cut short while it was in use"
    once err '^error: '
    has "runs/cut$1/result.json" "\"state\":\"failed\".*\"error\":\"${2}$work/images: a part of it is gone"
    has "runs/cut$1/log/rank-0.log" "$work/images: a part of it is gone"
}
cut_short 1 ""
cut_short 2 "rank [01]: "
rm -r runs
{ printf '\000\000\010\003\000\000\000\100\000\000\000\002\000\000\000\002'; head -c 256 /dev/zero; } >images
try 1 train idx.yaml --set data.train_labels=images # another's message, and no signal
times 1 err '^error: '

# ---- a small stack ends no process without a word: it is refused, and the least that is allowed is enough, also for threads and ranks
what="a stack of 64 KiB"
(ulimit -s 64; "$lockstep" train idx.yaml --dry-run >out 2>err </dev/null); got=$?
[ $got -eq 2 ] || bad "$what: exit status $got instead of 2"
once err "^error: the stack is limited to 64 KiB \(ulimit -s\), and at least 1024 KiB are needed: ulimit -s 8192$"; once err .
for workers in 1 2; do
    (ulimit -s 1024; try 0 train idx.yaml --set run.name=stack$workers --set train.steps=3 --set threads=2 --workers $workers; exit $failures) || bad "a stack of 1 MiB, $workers workers"
done
rm -r runs

# ---- what is not a file
mkfifo pipe pipe.safetensors
refused 1 "error: pipe: cannot read: it is a pipe, not a regular file" train text.yaml --set data.train_text=pipe --dry-run
refused 1 "error: pipe: cannot read: it is a pipe, not a regular file" train text.yaml --set data.tokenizer=pipe --dry-run
refused 1 "error: pipe.safetensors: cannot read: it is a pipe, not a regular file" inspect pipe.safetensors
refused 1 "pipe.safetensors: cannot read: it is a pipe, not a regular file" train text.yaml --set model.init=pipe.safetensors --dry-run
refused 2 "error: pipe is not a regular file" plan pipe
mkdir folder
refused 2 "folder is a folder" train text.yaml --set data.train_text=folder --dry-run
export LOCKSTEP_DATA=$work/nowhere
refused 2 "folder is a folder" train text.yaml --set data.train_text=folder --dry-run
unset LOCKSTEP_DATA

# ---- a few characters that ask for much
choices=$(printf '{a,b}%.0s' {1..24})
refused 2 "its braces make more than 4096 patterns" train text.yaml --set "data.train_text='$choices'" --dry-run
name=$(printf 'a.%.0s' {1..100000})w
header="{\"$name\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"
n=${#header}
{ printf "\\x$(printf %02x $((n & 255)))\\x$(printf %02x $((n >> 8 & 255)))\\x$(printf %02x $((n >> 16)))\\0\\0\\0\\0\\0"; printf '%sx' "$header"; } >deep.safetensors
try 0 inspect deep.safetensors
has out "in 1 tensors"

# ---- a configuration of ten thousand layers beside weights of one
try 0 train text.yaml --set run.name=one -q
mkdir many
cp runs/one/checkpoints/latest/model.safetensors many
sed 's/"num_hidden_layers": *1\b/"num_hidden_layers":10000/' runs/one/checkpoints/latest/config.json >many/config.json
has many/config.json '"num_hidden_layers":10000'
refused 1 "model.layers is 10000 .*, and the tensors of many are numbered up to 0" predict many --prompt x --set data.tokenizer=bytes
refused 1 "model.layers is 10000 .*, and the tensors of many are numbered up to 0" train text.yaml --set model.init=many --set model.layers=10000

# ---- a run that has a checkpoint needs its initial weights no more
cp runs/one/checkpoints/latest/model.safetensors begin.safetensors
begun() { echo text.yaml --set model.init=begin.safetensors --set run.name=begun --set train.epochs=100 "$@"; }
try 0 train $(begun --set train.steps=1) -q
rm begin.safetensors
try 0 train $(begun --set train.steps=2) -q
try 0 eval $(begun)
refused 2 "begin.safetensors: no such file or folder" train $(begun --set run.name=another)
refused 2 "begin.safetensors: no such file or folder" plan $(begun)

# ---- a request to stop is heard while a model is built, and in the middle of a file
takes_signals() { [ "$(readlink "/proc/$1/exe")" = "$(readlink -f "$lockstep")" ] && grep -q '^SigCgt:.*[2367abef]$' "/proc/$1/status"; }
"$lockstep" plan text.yaml --set model.layers=10000 >out 2>err </dev/null &
child=$!
what="a model of 10000 layers"
until_true takes_signals $child
kill -INT $child
wait $child
got=$?
[ $got -eq 75 ] || bad "$what: exit status $got instead of 75"
has err "^stopped while "

head -c 16M /dev/zero | tr '\0' a | gzip -1 >one.gz
for i in {1..200}; do cat one.gz; done >bomb.gz
"$lockstep" train text.yaml --set data.train_text=bomb.gz --dry-run >out 2>err </dev/null &
child=$!
what="a gzip bomb"
until_true grep -q bomb.gz "/proc/$child/maps"
kill -INT $child
wait $child
got=$?
[ $got -eq 75 ] || bad "$what: exit status $got instead of 75"
has err "^stopped while (opening|hashing|inflating) .*bomb.gz"
finish
