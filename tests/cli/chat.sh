#!/bin/bash
# chat.sh COMMAND - conversations as a user meets them: targets are shown, one, two and four ranks give the same bytes, also of a weighted mixture, a run is
# resumed, the model answers through a pipe; and what goes wrong, one message each.
source "$(dirname "$0")/common.sh"

talk() { echo "{\"messages\": [{\"role\": \"user\", \"content\": \"$1\"}, {\"role\": \"assistant\", \"content\": \"$2\"}]}"; }
for i in $(seq 24); do talk "number $i <|endoftext|>" "yes, $((i * i))"; done >a.jsonl
for i in $(seq 8); do talk "letter $i" "no"; done >b.jsonl
cat >recipe.yaml <<'EOF'
model: {type: llama, vocab_size: 257, layers: 1, heads: 2, hidden_size: 16, mlp_size: 24, tied: true}
data: {type: chat, train_text: [a.jsonl, b.jsonl], weights: [1, 2], tokenizer: bytes, template: chatml, seq_length: 192, eval_fraction: 0.2}
train: {epochs: 4, global_batch: 4, micro_batch: 1}
optimizer: {type: adamw, lr: 1e-2}
threads: 1
parallel: {units: "class:LlamaDecoderLayer"}
EOF

try 0 data recipe.yaml --set data.pack=false --samples 2
has out "tokens of the split are targets; here they are in ⟦ ⟧"
has out "^⟦(yes, [0-9]+|no)<[|]endoftext[|]>⟧$"
has out "tokens, [0-9]+ targets$"
try 0 train recipe.yaml --set run.name=whole
has runs/whole/recipe.yaml "train_text: \[a.jsonl, b.jsonl\]"
for ranks in 2 4; do
    rm -rf runs/other
    try 0 train recipe.yaml --set run.name=other --workers $ranks; same other
done
try 0 train recipe.yaml --set run.name=parts --set train.steps=2
try 0 train recipe.yaml --set run.name=parts --set train.steps=0 --workers 2; same parts

printf 'number 3\n/reset\n/system be brief\n\n//x\n/exit\nnever\n' >lines
what="lockstep chat"
"$lockstep" chat runs/whole --tokens 5 <lines >out 2>err || bad "$what: $(cat err)"
[ "$(wc -l <out)" -ge 2 ] || bad "$what: no two answers"
cp out first
"$lockstep" chat runs/whole --tokens 5 <lines >out 2>err; cmp -s out first || bad "$what: another answer"
try 0 export runs/whole --to folder/ # it has the template that the run named
has folder/chat_template.jinja "^\{% set im_end = eos_token %\}"
"$lockstep" chat folder --tokens 5 <lines >out 2>err; cmp -s out first || bad "$what: another answer of the exported folder: $(cat err)"
for one in "--top-k 1" "--top-p 1e-9"; do # the likeliest token is all that is left to draw
    "$lockstep" chat runs/whole --tokens 5 --temperature 5 --seed 3 $one <lines >out 2>err; cmp -s out first || bad "$what $one: another answer"
done
"$lockstep" chat runs/whole --tokens 5 --temperature 5 --seed 3 <lines >out 2>err; cmp -s out first && bad "$what: nothing is drawn"
refused 2 "top-k needs --temperature T" chat runs/whole --top-k 3
refused 2 "top-k 0: " chat runs/whole --temperature 1 --top-k 0
refused 2 "top-p 0: " chat runs/whole --temperature 1 --top-p 0
refused 2 "top-p 1.5: " chat runs/whole --temperature 1 --top-p 1.5
refused 2 "temperature -1: a number from 0 to 100" chat runs/whole --temperature -1
# forgotten, and asked again: the caches are as they were
printf 'number 3\n/reset\nnumber 3\n' >again
"$lockstep" chat runs/whole --tokens 5 --temperature 3 --seed 1 <again >out 2>err || bad "$what: $(cat err)"
half=$(($(wc -c <out) / 2))
cmp -s <(head -c "$half" out) <(tail -c "$half" out) || bad "$what: asked again, it says something else: $(cat out)"
echo /nothing | "$lockstep" chat runs/whole >out 2>err && bad "$what: takes any command"
has err "/nothing: no such command"

(cat a.jsonl; echo '{"messages": [{"role": "user"}]}') >bad.jsonl
refused 1 "bad.jsonl, conversation at line 25: messages\[0\] has no \"content\"" data recipe.yaml --set data.train_text=bad.jsonl --set data.weights=1
refused 2 "3 weights, and data.train_text has 2 entries" data recipe.yaml --set "data.weights=[1, 2, 3]"
refused 2 "data.template: auto: there is no chat_template.jinja" data recipe.yaml --set data.template=auto
printf '{%% nosuch %%}' >bad.jinja
refused 1 "bad.jinja:1" data recipe.yaml --set data.template=bad.jinja
finish
