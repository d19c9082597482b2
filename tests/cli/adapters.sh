#!/bin/bash
# adapters.sh - train.lora from the command: checkpoints hold the adapters alone, with the same bits on any ranks and after a resume; predict, eval, export and
# model.init find their base; PEFT's folders are read, and what they ask for that this version does not have is refused by name.
source "$(dirname "$0")/common.sh"

# ---- a small base, and adapters of it
printf 'one two three\nfour five six\nseven eight nine ten\neleven\ntwelve thirteen\nfourteen fifteen\n' >text.txt
cat >base.yaml <<'END'
run: {name: base}
model: {type: llama, vocab_size: 257, layers: 2, heads: 4, kv_heads: 2, hidden_size: 16, mlp_size: 32}
data: {type: text, train_text: text.txt, eval_text: text.txt, documents: line, tokenizer: bytes, seq_length: 16}
train: {steps: 2, epochs: 9, global_batch: 4, micro_batch: 1}
optimizer: {lr: 0.01}
END
try 0 train base.yaml -q
cp -rL runs/base/checkpoints/latest base
sed 's/base}/lora}/; s/type: llama.*/init: base}/; s/steps: 2/lora: {rank: 2, alpha: 6}, steps: 4/' base.yaml >lora.yaml
try 0 train lora.yaml --workers 2; has err '[0-9]+ parameters in [0-9]+ tensors, 1024 of the parameters trained \('
now=runs/lora/checkpoints/latest
[ ! -e $now/model.safetensors ] || bad "the checkpoint has the whole model"
has $now/adapter_config.json '^\{"peft_type":"LORA","task_type":"CAUSAL_LM","base_model_name_or_path":"'"$work"'/base","r":2,"lora_alpha":6,"lora_dropout":0,"use_rslora":false,"target_modules":"all-linear","bias"'
try 0 plan lora.yaml; has out ', 1024 of them trained '
try 0 inspect $now --verify; has out 'every byte of 7 files'; has out '1,024 +elements in 28 tensors'

# ---- the same bits on 1 and 4 ranks, with ddp, with recomputation, with asynchronous checkpoints, after a resume on another number of ranks; with dropout, too
alike() { cmp "runs/$1/checkpoints/latest/adapter_model.safetensors" "runs/$2/checkpoints/latest/adapter_model.safetensors" || bad "$what: other adapters"; }
try 0 train lora.yaml -q --set run.name=one --set parallel.recompute=class:LlamaDecoderLayer; alike lora one
try 0 train lora.yaml -q --set run.name=four --workers 4 --set parallel.data=ddp --set checkpoint.async=true; alike lora four
try 0 train lora.yaml -q --set run.name=again --set train.steps=2 --workers 2
try 0 train lora.yaml -q --set run.name=again; alike lora again
drop=(train lora.yaml -q --set train.lora.dropout=0.3)
try 0 "${drop[@]}" --set run.name=drop --workers 2
try 0 "${drop[@]}" --set run.name=dropped --set train.steps=3
try 0 "${drop[@]}" --set run.name=dropped --workers 4; alike drop dropped
cmp -s $now/adapter_model.safetensors runs/drop/checkpoints/latest/adapter_model.safetensors && bad "dropout changes nothing"
# the evaluation of a run, which drops nothing and joins products, reads the parameters where training has them
try 0 eval runs/drop --json; awk -v a="$(grep -o '"loss":[0-9.]*' out | cut -d: -f2)" -v b="$(sed -n 's/.*"kind":"eval".*"loss":\([0-9.]*\).*/\1/p' runs/drop/metrics.jsonl | tail -n 1)" \
    'BEGIN { exit !(b > 0 && a - b < 1e-6 && b - a < 1e-6) }' || bad "dropout: another loss than that of the run"
# an axis tp splits an adapter as its layer
try 0 train lora.yaml --set run.name=tp --set 'parallel.mesh={dp: 1, tp: 2}' --workers 2; cp err tp
loss() { sed -n 's/.*"kind":"eval".*"loss":\([0-9.]*\).*/\1/p' "runs/$1/metrics.jsonl" | tail -n 1; }
[ -n "$(loss tp)" ] && awk -v a="$(loss lora)" -v b="$(loss tp)" 'BEGIN { exit !(a - b < 1e-4 && b - a < 1e-4) }' || bad "tp 2: $(loss tp) instead of $(loss lora)"

# ---- predict and eval find the base, export leaves it out or merges it
try 0 predict runs/lora --prompt one --tokens 5 && cp out said
try 0 eval runs/lora; has out '^loss '; cp out loss
try 0 predict runs/lora --prompt one --tokens 5 --workers 2
try 0 export runs/lora --to adapter/; has out 'adapter/: 28 tensors, a folder for PEFT'
cmp $now/adapter_model.safetensors adapter/adapter_model.safetensors || bad "export changes the adapters"
[ "$(ls adapter | tr '\n' ' ')" = "adapter_config.json adapter_model.safetensors tokenizer.json tokenizer_config.json " ] && cmp $now/adapter_config.json adapter/adapter_config.json || bad "the exported folder: $(ls adapter)"
touch adapter/mine; refused 2 'adapter: only a folder that holds a model and nothing else is replaced, and it has mine' export runs/lora --to adapter/ --force; rm adapter/mine; try 0 export runs/lora --to adapter/ --force
try 0 export runs/lora --merge --to merged.safetensors; has out '21 tensors'
try 0 train base.yaml -q --set run.name=merged --set model.init=merged.safetensors --set optimizer.lr=0 --set train.steps=1
try 0 eval runs/merged; diff <(grep -o 'loss [0-9.]\{6\}' out) <(grep -o 'loss [0-9.]\{6\}' loss) || bad "the merged weights compute something else"
refused 2 'has adapters without their base: --merge writes the whole model, --to FOLDER/' export runs/lora --to x.safetensors
refused 2 'adapters are exported without the optimizer' export runs/lora --to x.dcp --optimizer
try 0 export runs/lora --to adapter.gguf; try 0 inspect adapter.gguf; has out '^adapter.lora.alpha  6'; has out 'lora_b +[0-9]+ +F32'; has out '28 tensors'
try 0 export adapter --to again.gguf; cmp adapter.gguf again.gguf || bad "a folder of PEFT is another adapter"
try 0 export runs/lora --merge --to merged.gguf; try 0 export adapter --merge --to merged/; try 0 export merged --to whole.gguf; cmp merged.gguf whole.gguf || bad "merged on two ways, other files"
refused 2 'an adapter is small and stays f32' export runs/lora --to x.gguf --type q8_0
refused 2 'runs/base/checkpoints/.* has no adapters' export runs/base --merge --to x.safetensors

# ---- model.init and predict take the folder; its settings come along
try 0 predict adapter --prompt one --tokens 5 --set data.tokenizer=bytes --set data.seq_length=16; cmp out said || bad "the folder generates another text than the run"
# eval of a folder: the data is on the command line, the numbers are those of the run
read_it=(--set data.eval_text=text.txt --set data.documents=line --set data.tokenizer=bytes --set data.seq_length=16)
try 0 eval adapter "${read_it[@]}"; diff <(grep -o 'loss .*)' out) <(grep -o 'loss .*)' loss) || bad "the folder has another loss than the run"
try 0 eval adapter "${read_it[@]}" --workers 2 --json; has out '^\{"model":"adapter"'
try 0 eval merged "${read_it[@]}"; diff <(grep -o 'loss [0-9.]\{6\}' out) <(grep -o 'loss [0-9.]\{6\}' loss) || bad "the merged folder has another loss"
refused 2 'adapter: a folder of a model has no data to evaluate it on; name a file and the tokens of a sample: --set data.eval_text=FILE --set data.seq_length=512' eval adapter
refused 2 'merged: a folder of a model has no data' eval merged --set data.eval_text=text.txt
refused 2 '--best chooses among the checkpoints of a run, and adapter is' eval adapter --best
sed 's/lora}/on}/; s/init: base/init: adapter/; s/lora: {rank: 2, alpha: 6}, //' lora.yaml >on.yaml
try 0 train on.yaml --set train.steps=1; has err '1024 of the parameters trained'
has runs/on/checkpoints/latest/adapter_config.json "$work/base\",\"r\":2,\"lora_alpha\":6"
refused 2 'train.lora.rank: 4, and the adapters of adapter/adapter_config.json have rank 2' train on.yaml --set run.name=x --set train.lora.rank=4
mv base moved
refused 2 'the base of this adapter is .*base, which is not there; name it with --base FOLDER' predict adapter --prompt one --set data.tokenizer=bytes --set data.seq_length=16
try 0 predict adapter --base moved --prompt one --tokens 5 --set data.tokenizer=bytes --set data.seq_length=16; cmp out said || bad "--base: another text"
try 0 predict runs/lora --base moved --prompt one --tokens 5; cmp out said || bad "--base: another text of the run"
try 0 export adapter --merge --base moved --to again.safetensors; cmp merged.safetensors again.safetensors || bad "--base: other merged weights"
try 0 train lora.yaml -q --set checkpoint.base=moved --set train.steps=5
mv moved base

# ---- what must not change
refused 2 'train.lora.rank: 4 here, 2 there' train lora.yaml --set train.lora.rank=4 --set train.steps=6
refused 2 'train.lora.alpha: 8 here, 6 there' train lora.yaml --set train.lora.alpha=8 --set train.steps=6
refused 2 'train.lora.targets: q_proj here, all-linear there' train lora.yaml --set train.lora.targets=q_proj --set train.steps=6
try 0 train base.yaml -q --set run.name=other --set run.seed=5
cp runs/other/checkpoints/latest/model.safetensors base/model.safetensors
refused 2 'its adapters belong to other weights than those of base: they were base then, with the digest' train lora.yaml --set train.steps=6
refused 2 'its adapters belong to other weights' predict runs/lora --prompt one
cp runs/base/checkpoints/latest/model.safetensors base/model.safetensors

try 0 export runs/base --to dcp --format dcp --optimizer
refused 2 '--resume dcp: with train.lora or checkpoint.frozen: reference a run continues from its own checkpoints' train lora.yaml --set run.name=x --resume dcp

# ---- settings that name nothing, or do not fit
refused 2 'train.lora.targets: p_proj: the model has no linear layer whose name ends so' train lora.yaml --set run.name=x --set 'train.lora.targets=[q_proj, p_proj]'
refused 2 'train.lora.rank: .*an adapter of rank 17 for a layer of 16 inputs' train lora.yaml --set run.name=x --set train.lora.rank=17
refused 2 'train.lora.save: !score: the model has no parameter or module' train lora.yaml --set run.name=x --set train.lora.save=score
refused 2 'train.lora.alpha: .*no effect with train.lora.rank 0' train lora.yaml --set run.name=x --set train.lora.rank=0
# with random first weights there is no base to name: the checkpoint is whole
try 0 train base.yaml -q --set run.name=whole --set train.lora.rank=2; try 0 inspect runs/whole; has out 'in 49 tensors'
try 0 predict runs/whole --prompt one --tokens 3; try 0 export runs/whole --merge --to whole.safetensors; has out '21 tensors'
# modules that are trained whole
try 0 train lora.yaml -q --set run.name=save --set train.lora.save=model.norm; has runs/save/checkpoints/latest/adapter_config.json '"modules_to_save":\["model.norm"\]'
try 0 predict runs/save --prompt one --tokens 3; try 0 export runs/save --to saved/; try 0 predict saved --prompt one --tokens 3 --set data.tokenizer=bytes --set data.seq_length=16

try 0 train lora.yaml -q --set run.name=mlp --set train.lora.save=model.layers.1.mlp; try 0 inspect runs/mlp; has out 'in 25 tensors' # and no adapters there

# ---- options of adapter_config.json (tests/ckpt/test_adapter.c has the others)
cp -r adapter bad; sed -i 's/"bias":"none"/"bias":"none","use_dora":true/' bad/adapter_config.json
refused 1 'bad/adapter_config.json: "use_dora" is true; this version has low-rank adapters without this option' predict bad --prompt one --set data.tokenizer=bytes
sed -i 's/"base_model_name_or_path":"[^"]*"/"base_model_name_or_path":null/' adapter/adapter_config.json
refused 2 'the base of this adapter is not named in its adapter_config.json' predict adapter --prompt one --set data.tokenizer=bytes
finish
