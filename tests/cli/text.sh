#!/bin/bash
# text.sh COMMAND - a language model on text as a user meets it: one and two ranks give the same bytes, a run is resumed, evaluated, planned,
# exported; the text is tokenized once; and what goes wrong, one message each.
source "$(dirname "$0")/common.sh"

for i in $(seq 60); do printf 'the %d-th of many small documents\nof two lines, and of %d words\n\n' "$i" $((i % 7)); done >all.txt
cat >recipe.yaml <<'EOF'
model: {type: llama, layers: 2, heads: 2, kv_heads: 1, hidden_size: 16, mlp_size: 24, tied: true}
data: {type: text, train_text: all.txt, documents: blank, tokenizer: bytes, seq_length: 32, eval_fraction: 0.2}
train: {epochs: 2, global_batch: 8, micro_batch: 4}
optimizer: {type: adamw, lr: 1e-2}
threads: 1
log: {every: 2}
parallel: {units: "class:LlamaDecoderLayer"}
EOF

# ---- a whole run; another on two ranks; a third in two parts
try 0 train recipe.yaml --set run.name=whole
once err "tokenized all.txt: 60 documents"; has err "data +text: [0-9]+ \+ [0-9]+ samples, all.txt \(48 of 60 documents"
has err "tokens/s"; has err "perplexity [0-9.]+  accuracy"
has runs/whole/metrics.jsonl '"samples":8,"targets":256'
has runs/whole/metrics.jsonl '"kind":"epoch","epoch":1,.*"memory":[0-9]{7,}'
try 0 train recipe.yaml --set run.name=two --workers 2; same two
# several kinds of units; the table is a module of class Embedding, for units and for precision
sets=(--set "parallel.units=[class:LlamaDecoderLayer, class:Embedding]" --set parallel.gather=copy)
try 0 train recipe.yaml --set run.name=table --workers 2 "${sets[@]}"; same table
try 0 explain recipe.yaml --workers 2 "${sets[@]}" --param model.embed_tokens.weight; has out "unit model.embed_tokens"
sets=(--set precision.param=bf16 --set precision.modules=class:Embedding=f32 --set train.steps=2)
try 0 train recipe.yaml --set run.name=mixed --workers 2 "${sets[@]}" --set parallel.units=class:Embedding
try 0 train recipe.yaml --set run.name=mixed1 "${sets[@]}"
cmp runs/mixed/checkpoints/latest/model.safetensors runs/mixed1/checkpoints/latest/model.safetensors || bad "$what: other weights"
try 0 train recipe.yaml --set run.name=cuts --set "schedule={type: step, step_epochs: 1, gamma: 0.5}" # as StepLR, stepped once an epoch
has runs/cuts/metrics.jsonl '"step":11,"epoch":0,.*"lr":0.01,'; has runs/cuts/metrics.jsonl '"step":12,"epoch":1,.*"lr":0.005,'
has runs/cuts/metrics.jsonl '"kind":"epoch","epoch":0,"step":11,.*"lr":0.01,'; has runs/cuts/metrics.jsonl '"kind":"epoch","epoch":1,"step":22,.*"lr":0.005,'
times 0 err "tokenized"
try 0 train recipe.yaml --set run.name=parts --set train.steps=3
try 0 train recipe.yaml --set run.name=parts --set train.steps=0; has err "continues after step 3"; same parts
epochs() { sed -n '/"kind":"epoch"/s/"seconds":.*//p' "runs/$1/metrics.jsonl" | tail -n 2; } # their rows, without what takes time
[ "$(epochs parts)" = "$(epochs whole)" ] || bad "$what: an epoch that was interrupted has another row: $(epochs parts; epochs whole)"
# a part of the documents, and of an epoch: 24 of the 60, of which some are kept for evaluation; two epochs of two steps
try 0 train recipe.yaml --set run.name=part --set data.train_percentage=40 --set train.steps_per_epoch=2
has err "\((1[0-9]|2[0-4]) of 60 documents"; has runs/part/metrics.jsonl '"step":4,"epoch":1'
times 2 runs/part/metrics.jsonl '"kind":"epoch"'
[ "$(grep -o '"loss":[0-9.]*' runs/part/metrics.jsonl | sed -n 1p)" != "$(grep -o '"loss":[0-9.]*' runs/part/metrics.jsonl | sed -n 3p)" ] || bad "$what: the second epoch has the order of the first"
refused 2 "train.steps_per_epoch: 3 here, 2 there .how many steps an epoch has" train recipe.yaml --set run.name=part --set data.train_percentage=40 \
    --set train.steps_per_epoch=3 --set train.epochs=3
refused 2 "no document of its train_percentage has two tokens" train recipe.yaml --set run.name=none --set data.pack=false \
    --set data.train_percentage=0.1
refused 2 "data.train_percentage: 0" train recipe.yaml --set run.name=none --set data.train_percentage=0
level=$(grep -o '"isa":"[a-z0-9]*"' runs/whole/checkpoints/latest/trainer.json | cut -d'"' -f4)
if [ "$level" != generic ]; then
    try 0 train recipe.yaml --set run.name=level --set isa=generic --set train.steps=3
    refused 2 "ISA level: $level here, generic there" train recipe.yaml --set run.name=level --set train.steps=4
    try 0 train recipe.yaml --set run.name=level --set isa=generic --set train.steps=4
fi
# another device: its levels are not compared
try 0 train recipe.yaml --set run.name=device --set device=ref --set train.steps=1
refused 2 "device: cpu here, ref there .how numbers are rounded; --set device=ref." train recipe.yaml --set run.name=device --set train.steps=2
times 0 err "ISA level"
numbers() { tail -1 "$1" | cut -d')' -f1; } # of an evaluation, without its time
try 0 eval runs/whole; has out "perplexity"; cp out eval
try 0 eval runs/whole/checkpoints/latest; [ "$(numbers out)" = "$(numbers eval)" ] || bad "$what: another loss"
try 0 eval runs/whole --workers 2; [ "$(numbers out)" = "$(numbers eval)" ] || bad "$what: another loss on two ranks"

# ---- layers over two ranks, alone and beside two of data; continued without
tp2=(--set model.kv_heads=2 --set "parallel.mesh={dp: auto, tp: 2}")
try 0 train recipe.yaml --set run.name=tp --workers 2 "${tp2[@]}" --set train.steps=3; has err "dp=1 x tp=2"
try 0 train recipe.yaml --set run.name=tp4 --workers 4 "${tp2[@]}" --set train.steps=3
cmp runs/tp/checkpoints/latest/model.safetensors runs/tp4/checkpoints/latest/model.safetensors || bad "$what: data ranks changed the weights"
try 0 train recipe.yaml --set run.name=tp --set model.kv_heads=2 --set train.steps=0; has err "continues after step 3"
try 0 eval runs/tp; cp out eval.tp
try 0 eval runs/tp --workers 2; [ "$(numbers out)" = "$(numbers eval.tp)" ] || bad "$what: another loss on two ranks"
try 0 explain recipe.yaml --workers 4 "${tp2[@]}" --param model.layers.1.self_attn.o_proj.weight
has out "block 0 of 2 along dimension 1 \(axis tp\)"; has out "rank 3   holds of block 1"
try 0 inspect recipe.yaml --workers 2 "${tp2[@]}" --json; has out '"name":"model.layers.1.self_attn.o_proj.weight","dtype":"f32","shape":\[16,16\]'; has out '"block":1'
try 0 plan recipe.yaml --workers 4 "${tp2[@]}"; has out "all_reduce over tp +8 a step"; has out "bits +not promised .* axis tp"

# ---- how every value lies over the axis that splits layers, and its gradient; without such an axis nothing is said
try 0 explain recipe.yaml --workers 4 "${tp2[@]}" --set parallel.recompute=class:LlamaDecoderLayer --full; cp out placed
has out 'input -> %1 i32 \[4, 32\] \{tp: Invariant\}  @ io "ids"'; has out "replicate %[0-9]+ -> %[0-9]+ f32 \[4, 32, 16\] \{tp: Replicate\}"
has out "flat_view %[0-9]+ -> %[0-9]+ f32 \[16, 8\] \{tp: Shard\(1\)\}"; has out "attention .* f32 \[4, 32, 8\] \{tp: Shard\(2\)\}, %[0-9]+ f32 \[4, 1, 32\] \{tp: Shard\(1\)\}"
has out "linear .* f32 \[4, 32, 16\] \{tp: Partial\}"; has out "linear .* f32 \[4, 32, 16\] \{tp: Partial\} .*computed again"
has out "linear_dw .* f32 \[16, 8\] \{tp: Shard\(1\)\}"; has out "linear_dx .* f32 \[4, 32, 16\] \{tp: Partial\}"; has out "fused .* f32 \[4, 32, 12\] \{tp: Shard\(2\)\}"
try 0 explain recipe.yaml --workers 4 "${tp2[@]}" --set parallel.recompute=class:LlamaDecoderLayer --full --json; has out '"type":"f32 \[4, 1, 32\]","placement":\{"tp":"Shard\(1\)"\}'
[ "$(grep -o '"placement":' out | wc -l)" = "$(grep -o '{tp: ' placed | wc -l)" ] || bad "$what: other placements than as text"
try 0 plan recipe.yaml --workers 4 "${tp2[@]}"; has out "activations linear \{tp: Invariant\}"; has out "mlp.down_proj \{tp: Partial\}"
try 0 plan recipe.yaml --workers 4 "${tp2[@]}" --json; has out '"placement":\{"tp":"Partial"\}'
try 0 explain recipe.yaml --workers 2 --full; times 0 out "Invariant|Replicate"; try 0 plan recipe.yaml --workers 2 --json; times 0 out placement

# ---- the vocabulary over two ranks, and the sequence; bytes and the end of a text are 257 words, an odd number, which is said when it is asked for
refused 2 "embed_tokens.weight has size 257, which the 2 ranks of axis tp do not divide" plan recipe.yaml --workers 2 "${tp2[@]}" --set "parallel.tensor=rowwise:embed_tokens"
even=("${tp2[@]}" --set model.vocab_size=260 --set parallel.sequence=true)
try 0 train recipe.yaml --set run.name=sequence --workers 2 "${even[@]}" --set train.steps=3
try 0 train recipe.yaml --set run.name=sequence4 --workers 4 "${even[@]}" --set train.steps=3
cmp runs/sequence/checkpoints/latest/model.safetensors runs/sequence4/checkpoints/latest/model.safetensors || bad "$what: data ranks changed the weights"
try 0 inspect runs/sequence4/checkpoints/latest --verify
try 0 train recipe.yaml --set run.name=sequence4 --set model.kv_heads=2 --set model.vocab_size=260 --set train.steps=0; has err "continues after step 3"
try 0 plan recipe.yaml --workers 2 "${even[@]}"; has out "reduce_scatter over tp +20 a step"; has out "all_gather over tp"
try 0 explain recipe.yaml --workers 2 "${even[@]}"; has out "all_gather cross_entropy  over tp"
refused 2 "has 1 (key/value )?heads, which the 2 ranks of axis tp do not divide" plan recipe.yaml --workers 2 --set "parallel.mesh={dp: auto, tp: 2}"

# ---- what it says: the same for any threads, and for a seed; as text, as JSON, from a checkpoint and from a folder as Hugging Face has them
prompt=(--prompt "the 3-th of many" --tokens 12)
try 0 predict runs/whole "${prompt[@]}"; has out "^the 3-th of many"; has err "12 tokens, [0-9.]+ tokens/s"; cp out said
try 0 predict runs/whole "${prompt[@]}" --set threads=2; cmp out said || bad "$what: threads changed the text"
try 0 predict runs/whole/checkpoints/latest "${prompt[@]}"; cmp out said || bad "$what: another text from the checkpoint"
mkdir folder && cp runs/whole/checkpoints/latest/{config.json,model.safetensors} folder
try 0 predict folder "${prompt[@]}" --set data.tokenizer=bytes; cmp out said || bad "$what: another text from a folder"
try 0 predict folder "${prompt[@]}" --set data.tokenizer=bytes --json
echo "{\"eos_token_id\": [256, $(grep -o '"ids":\[[0-9]*' out | grep -o '[0-9]*$')]}" >folder/generation_config.json # its first token ends it
try 0 predict folder "${prompt[@]}" --set data.tokenizer=bytes --json; has out '"text":"","ids":\[\],"ended_by":"end token"'
refused 2 "data.tokenizer: folder: no such file, and no folder with a tokenizer.json" predict folder "${prompt[@]}"
try 0 predict runs/whole "${prompt[@]}" --temperature 1.5 --seed 3; cp out drawn
try 0 predict runs/whole "${prompt[@]}" --temperature 1.5 --seed 3 --set threads=2; cmp out drawn || bad "$what: threads changed the text"
try 0 predict runs/whole "${prompt[@]}" --temperature 1.5 --seed 4; ! cmp -s out drawn || bad "$what: the seed changed nothing"
try 0 predict runs/whole "${prompt[@]}" --temperature 1.5 --seed 4 --top-k 1; cmp out said || bad "$what: the likeliest of one is another"
try 0 predict runs/whole "${prompt[@]}" --temperature 1.5 --seed 4 --top-p 1e-9; cmp out said || bad "$what: the likeliest of the fewest is another"
try 0 predict runs/whole --prompt "http://the" --tokens 40 --json; has out '"prompt":"http://the","text":".*"ended_by":"context","prompt_tokens":10'
[ "$(grep -o '"ids":\[[^]]*' out | tr -cd , | wc -c)" -eq 21 ] || { bad "$what: not the 22 tokens that fill the context"; cat out; }
has err "context of 32 tokens is full"
try 0 predict runs/whole --prompt "" --tokens 3
for name in nothing no/where; do refused 2 "$name: no such folder; give a checkpoint, a run" predict $name "${prompt[@]}"; done
mkdir empty; refused 2 "empty: neither a run .* nor a model's folder \(no config.json\)" predict empty "${prompt[@]}"
refused 2 "model.safetensors: a file, not a folder" predict folder/model.safetensors "${prompt[@]}"
refused 2 "33 tokens, and the model's context is 32" predict runs/whole --prompt "$(printf 'x%.0s' $(seq 33))"
refused 2 "a language model needs --prompt TEXT" predict runs/whole
refused 2 "top-k needs --temperature" predict runs/whole "${prompt[@]}" --top-k 3
refused 2 "--count and --prompt: give one of them" predict runs/whole "${prompt[@]}" --count 3
refused 2 "seed needs --random N or --temperature T" predict runs/whole --seed 3
# ---- two ranks split the layers: the same text, printed once
try 0 predict runs/tp "${prompt[@]}"; cp out said; try 0 predict runs/tp "${prompt[@]}" --workers 2; cmp out said || bad "$what: another text"; once err "12 tokens, "
try 0 predict runs/tp "${prompt[@]}" --workers 2 --json; once out '"text":".*"prompt_tokens":16'
refused 2 "--workers 2: .*has 1 (key/value )?heads, which the 2 ranks of axis tp do not divide" predict runs/whole "${prompt[@]}" --workers 2

try 0 runs --metrics whole --steps; has out "tokens/s"
try 0 export runs/whole --to model.safetensors
has runs/whole/checkpoints/latest/config.json '"model_type":"llama"'
sed 's#^model:.*#model: {type: llama, init: runs/whole/checkpoints/latest}#' recipe.yaml >again.yaml # its config.json says the sizes
try 0 train again.yaml --set run.name=again --set train.steps=1; has runs/again/recipe.yaml "hidden_size: 16"; has runs/again/recipe.yaml "tied: true"
refused 2 "model_type. is llama, and the recipe's model.type qwen2" train again.yaml --set run.name=x --set model.type=qwen2
try 0 plan recipe.yaml --workers 2; has out "samples of 32 tokens"
try 0 inspect recipe.yaml; has out "embed_tokens"
try 0 train recipe.yaml --set run.name=rows --set data.pack=false --set data.documents=line --set train.steps=2
has runs/rows/metrics.jsonl '"samples":8,"targets":2[0-9]+'
! grep -q '"targets":256' runs/rows/metrics.jsonl || bad "$what: padding is counted"
rm -r cache # two ranks at once without it: one tokenizes, the other waits
try 0 train recipe.yaml --set run.name=fresh --workers 2; same fresh
[ "$(ls cache/tokens/*.tokens | wc -l)" -eq 1 ] || bad "$what: not one file of tokens"

# ---- logits are rounded for the loss: on two ranks, and on two that split layers, too
try 0 train recipe.yaml --set run.name=rounded --set precision.output=bf16
try 0 train recipe.yaml --set run.name=rounded2 --set precision.output=bf16 --workers 2
cmp runs/rounded/checkpoints/latest/model.safetensors runs/rounded2/checkpoints/latest/model.safetensors || bad "$what: other weights than on one rank"
! cmp -s runs/rounded/checkpoints/latest/model.safetensors runs/whole/checkpoints/latest/model.safetensors || bad "$what: nothing was rounded"
try 0 eval runs/rounded; has out "perplexity"; try 0 predict runs/rounded --prompt "the 3" --tokens 4

# ---- a dry run writes no file anywhere: of tokens, of hashes that are remembered, of data that is inflated or downloaded
mkdir tmp home; gzip -k all.txt; rm -rf cache
printf '\0\0\010\003\0\0\0\100\0\0\0\002\0\0\0\002' >i; head -c 256 /dev/zero >>i; printf '\0\0\010\001\0\0\0\100' >l; head -c 64 /dev/zero >>l; gzip i l
echo '{model: {type: mlp, image_size: 2}, data: {type: idx, train_images: i.gz, train_labels: l.gz, eval_images: i.gz, eval_labels: l.gz}, train: {global_batch: 8}}' >idx.yaml
files() { find . ! -name out ! -name err ! -path . -printf '%p %s %T@\n' | sort; }
before=$(files)
for options in "" "--workers 2" "--set data.train_text=all.txt.gz"; do
    TMPDIR=$work/tmp HOME=$work/home try 0 train recipe.yaml --dry-run --set run.name=dry $options
    has err "tokenized all.txt.*a dry run keeps none of it"; has err "nothing was written"
done
TMPDIR=$work/tmp HOME=$work/home try 0 train idx.yaml --dry-run
TMPDIR=$work/tmp HOME=$work/home try 0 train mlp-mnist --dry-run; has err "a dry run downloads nothing"
[ "$(files)" = "$before" ] || bad "$what: files that a dry run wrote: $(diff <(echo "$before") <(files))"
try 0 train recipe.yaml --set run.name=dry --set train.steps=1; rm -rf runs/dry
TMPDIR=$work/tmp HOME=$work/home try 0 train recipe.yaml --dry-run --set run.name=dry; times 0 err tokenized # what is kept is read
[ ! -e runs/dry ] || bad "$what: a run of a dry run"

# ---- what goes wrong
refused 2 "data.type: text needs data.tokenizer" train recipe.yaml --set run.name=x --set data.tokenizer=
echo '{model: {type: mlp}, data: {type: text}}' >a.yaml; refused 2 "text is for models of text .llama, qwen2, [a-z0-9_, ]*., and model.type mlp" recipe a.yaml
echo '{model: {type: llama}, data: {type: mnist}}' >b.yaml; refused 2 "and model.type llama is one of text" recipe b.yaml
refused 2 "3 heads do not divide hidden_size 16" recipe recipe.yaml --set model.heads=3
refused 2 "kv_heads do not divide" recipe recipe.yaml --set model.kv_heads=3
refused 2 "nothing.txt: no such file here, and LOCKSTEP_DATA is not set" train recipe.yaml --set run.name=x --set data.train_text=nothing.txt
refused 2 "data.tokenizer: none: no such file" train recipe.yaml --set run.name=x --set data.tokenizer=none
refused 2 "--set data.seq_length: 4000 is more than the text has" train recipe.yaml --set run.name=x --set data.seq_length=4000
refused 2 "--set model.vocab_size: .*ids up to 256, the model's vocabulary is 100: set it to 257" train recipe.yaml --set run.name=x --set model.vocab_size=100
refused 2 "rank [01]: .*model's vocabulary is 100" train recipe.yaml --set run.name=x --set model.vocab_size=100 --workers 2
printf 'caf\351' >latin.txt
refused 1 "latin.txt: byte 3 is 0xe9: this is not UTF-8" train recipe.yaml --set run.name=x --set data.train_text=latin.txt
: >empty.txt
refused 2 "empty.txt: no text in this file" train recipe.yaml --set run.name=x --set data.train_text=empty.txt
finish
