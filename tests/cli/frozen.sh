#!/bin/bash
# frozen.sh - checkpoint.frozen: reference: checkpoints hold what is trained, and find the rest in model.init: the same bits as with copies, on any ranks and after a
# resume; eval, predict and export give the whole model; another base, and weights that model.init does not have, are refused by name.
source "$(dirname "$0")/common.sh"

printf 'one two three\nfour five six\nseven eight nine ten\neleven\ntwelve thirteen\nfourteen fifteen\n' >text.txt
cat >base.yaml <<'END2'
run: {name: base}
model: {type: llama, vocab_size: 257, layers: 2, heads: 4, kv_heads: 2, hidden_size: 16, mlp_size: 32}
data: {type: text, train_text: text.txt, eval_text: text.txt, documents: line, tokenizer: bytes, seq_length: 16}
train: {steps: 2, epochs: 9, global_batch: 4, micro_batch: 1}
optimizer: {lr: 0.01}
END2
try 0 train base.yaml -q
cp -rL runs/base/checkpoints/latest base
sed 's/base}/copy}/; s/type: llama.*/init: base}/; s/steps: 2/freeze: "* !model.layers.1 !model.norm", steps: 4/' base.yaml >copy.yaml
sed 's/copy}/part}/' copy.yaml >part.yaml; echo 'checkpoint: {frozen: reference}' >>part.yaml
try 0 train copy.yaml -q
try 0 train part.yaml -q --workers 2
now=runs/part/checkpoints/latest whole=runs/copy/checkpoints/latest
[ -e $now/trained.safetensors ] && [ ! -e $now/model.safetensors ] || bad "files: $(ls $now)"
[ "$(stat -c %s $now/trained.safetensors)" -lt "$(($(stat -c %s $whole/model.safetensors) / 2))" ] || bad "the checkpoint is not smaller"
has $now/trainer.json '"base":\{"name":"base","digest":"[0-9a-f]{16}"\}'
try 0 inspect $now --verify; has out 'in 10 tensors'

# ---- the bits of a run with copies: exported, in other formats, after a resume on other ranks, with files per rank
# has_weights FILE|FOLDER: a run that begins with it and changes nothing has the weights of runs/copy
still() { rm -rf runs/still; try 0 train base.yaml -q --set run.name=still --set "model.init=$1" --set optimizer.lr=0 --set train.steps=1; }
has_weights() { still "$1"; cmp runs/still/checkpoints/latest/model.safetensors whole.safetensors || bad "$1: other weights"; }
still runs/copy; cp runs/still/checkpoints/latest/model.safetensors whole.safetensors
same() { try 0 export "runs/$1" --to "$1.safetensors" --force; has_weights "$1.safetensors"; }
same part
try 0 export runs/part --to part/; has_weights part; cmp part/config.json $whole/config.json || bad "another config.json"
try 0 export runs/part --to part.gguf; try 0 inspect part.gguf; has out '21 tensors'
try 0 export runs/part --to part.dcp --optimizer; has_weights part.dcp
try 0 train part.yaml -q --set run.name=again --set train.steps=2 --workers 2 --set checkpoint.files=per_rank
try 0 train part.yaml -q --set run.name=again --set checkpoint.async=true; same again
try 0 train part.yaml -q --set run.name=end --set checkpoint.export=all/; has_weights runs/end/all
try 0 eval runs/copy; tail -n 1 out | cut -d' ' -f1-8 >loss
try 0 eval runs/part; tail -n 1 out | cut -d' ' -f1-8 | cmp - loss || bad "another loss"
try 0 eval $now --workers 2; tail -n 1 out | cut -d' ' -f1-8 | cmp - loss || bad "another loss on 2 ranks"
try 0 predict runs/copy --prompt one --tokens 5; cp out said
try 0 predict runs/part --prompt one --tokens 5; cmp out said || bad "another text"

# ---- the base has moved, or is another one
mv base moved
refused 2 'the base of this checkpoint is base, which is not there.* name it with --base FOLDER' eval runs/part
try 0 eval runs/part --base moved
try 0 predict runs/part --base moved --prompt one --tokens 5; cmp out said || bad "--base: another text"
try 0 export runs/part --base moved --to part.safetensors --force; has_weights part.safetensors
try 0 train part.yaml -q --set checkpoint.base=moved --set train.steps=5
mv moved base
try 0 train base.yaml -q --set run.name=other --set run.seed=5
cp runs/other/checkpoints/latest/model.safetensors base/model.safetensors
for verb in 'eval runs/part' 'predict runs/part --prompt one' 'export runs/part --to x.safetensors' 'train part.yaml --set train.steps=6'; do
    refused 2 'its trained weights belong to other weights than those of base: they were base then' $verb
done
cp runs/base/checkpoints/latest/model.safetensors base/model.safetensors

refused 2 '--base: runs/copy/checkpoints/.* leaves out no weights' export runs/copy --base base --to x.safetensors
refused 2 'checkpoint.base: has no effect: without train.lora and checkpoint.frozen: reference' eval runs/copy --base base

# ---- what would lose weights
refused 2 'holds only what its run trained .* lockstep export .* --to FOLDER/' train copy.yaml --set run.name=x --set model.init=runs/part
refused 2 'lm_head.weight is frozen and not in model.init: .* checkpoint.frozen: copy' train part.yaml --set run.name=x --set model.reset=lm_head
refused 2 'it holds all weights, and with checkpoint.frozen: reference' train copy.yaml --set checkpoint.frozen=reference --set train.steps=6
refused 2 'was trained, and is frozen now' train part.yaml --set 'train.freeze="* !model.norm"' --set train.steps=6 --allow-change
refused 2 'checkpoint.frozen: has no effect with train.freeze' train part.yaml --set run.name=x --set train.freeze=
refused 2 'checkpoint.frozen: has no effect with train.lora.rank' train part.yaml --set run.name=x --set train.lora.rank=2
# back to copies: the next checkpoint is whole
try 0 train part.yaml -q --set checkpoint.frozen=copy --set train.steps=6; [ -e $now/model.safetensors ] && [ ! -e $now/trained.safetensors ] || bad "copy: $(ls $now/)"
finish
