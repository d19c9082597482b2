#!/usr/bin/env bash
# secrets.sh COMMAND - what an environment variable gives a recipe is in no file of the run, unless it is a number, a known word or a path; a run is read and
# continued without its value.
source "$(dirname "$0")/common.sh"
secret=hf_S3CretT0kenOfNobody
mkdir -p sets/mnist; idx_data sets/mnist 40 20 8
cat >recipe.yaml <<'EOT'
run: {seed: "${SEED}"}
model: {type: mlp, image_size: 8, classes: 10, hidden: [8]}
data: {type: mnist, mirror: "https://${LS_SECRET}@nowhere.invalid/"}
train: {epochs: 1, global_batch: 8}
optimizer: {type: "${OPT:-adam}", lr: 1e-3}
threads: 1
EOT
sed 's|mirror: .*|path: "${DATA}"}|' recipe.yaml >path.yaml
export LOCKSTEP_DATA=$work/sets LS_SECRET=$secret SEED=7 OPT=sgd
none() { ! grep -rlF "$secret" "$@" || bad "$what: tells the secret"; }

try 0 train recipe.yaml; none runs out err
[ -f runs/recipe/report.html ] || bad "$what: no report"
has runs/recipe/recipe.yaml 'mirror: "https://\$\{LS_SECRET\}@nowhere.invalid/"'
has runs/recipe/recipe.yaml 'seed: 7'
has runs/recipe/recipe.yaml 'type: sgd'
has runs/recipe/checkpoints/latest/trainer.json '\$\{LS_SECRET\}'
has runs/recipe/report.html 'recipe.yaml:3 \(environment LS_SECRET\)'
try 0 recipe recipe.yaml; none out
try 0 train recipe.yaml --set train.epochs=2; none runs out err
has runs/recipe/result.json '"step":10'
refused 2 'run.seed: 8 here, 7 there' train recipe.yaml --set train.epochs=3 --set run.seed=8

# a path stays, so that the run can be read without the variable
DATA=$work/sets/mnist try 0 train path.yaml
has runs/path/recipe.yaml "path: $work/sets/mnist"

# a text that has to stay: its value is told by a hash, which another value does not have
cat >text.yaml <<'EOT'
model: {type: llama, vocab_size: 260, layers: 1, hidden_size: 16, mlp_size: 16, heads: 2, kv_heads: 1}
data: {type: text, train_text: words.jsonl, eval_text: words.jsonl, seq_length: 16, tokenizer: bytes, documents: json, field: "${FIELD}"}
train: {epochs: 1, global_batch: 8}
eval: {every_epochs: -1}
threads: 1
EOT
for ((i = 0; i < 100; i++)); do echo "{\"text\": \"line $i of a text\", \"title\": \"line $i of all titles\"}"; done >words.jsonl
export FIELD=text
try 0 train text.yaml
has runs/text/recipe.yaml 'field: "\$\{FIELD#[0-9a-f]{16}\}"'
has runs/text/checkpoints/latest/trainer.json 'FIELD#[0-9a-f]{16}'
try 0 train text.yaml --set train.epochs=2
FIELD=title refused 2 'data.field: "\$\{FIELD\}" here, another value of "\$\{FIELD\}" there' train text.yaml --set train.epochs=3
unset FIELD
refused 2 'data.field: environment variable FIELD is not set' eval runs/text
try 0 eval runs/text --set data.field=text
try 0 predict runs/text --prompt line --tokens 2
try 0 inspect runs/text

# files that moved, as those in the ${TMPDIR} of a job that is started again: their content is compared, not their name or pattern
mkdir first second third; cp words.jsonl first/words-1.jsonl; cp words.jsonl second/words-1.jsonl; sed 's/line 7/LINE 7/' words.jsonl >third/words-1.jsonl
sed 's|train_text: [^,]*, eval_text: [^,]*,|train_text: "${D}/words-*.jsonl", eval_text: "${D}/words-1.jsonl",|; s|"${FIELD}"|text|' text.yaml >moved.yaml
D=$work/first try 0 train moved.yaml
has runs/moved/recipe.yaml 'train_text: "\$\{D\}/words-\*.jsonl"'
D=$work/second try 0 train moved.yaml --set train.epochs=2
D=$work/third refused 2 'training data: text .*third/words-1.jsonl here, .*words-1.jsonl there' train moved.yaml --set train.epochs=3
refused 2 'data.train_text: environment variable D is not set' eval runs/moved
D=$work/second try 0 eval runs/moved

# without the variables runs are read, and a recipe of one's own still says what is missing
unset LS_SECRET SEED OPT
try 0 eval runs/recipe
try 0 eval runs/path
try 0 inspect runs/recipe
try 0 runs
refused 2 'recipe.yaml:1: environment variable SEED is not set' train recipe.yaml
finish
