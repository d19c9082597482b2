#!/bin/bash
# Tutorial 4: a T5 that learns to summarise, sharded by blocks. (tests/cli/pairs.sh tests its options, and what goes wrong; t5_base.sh trains the published size.)
source "$(dirname "$0")/page.sh"
needs curl
tiny=(--set model.layers=2 --set model.heads=2 --set model.hidden_size=32 --set model.mlp_size=64 --set model.vocab_size=264 --set data.source_length=48
    --set data.target_length=12 --set threads=1)
# SciTLDR and WikiHow are pairs of this project's; the hub's t5-base a small one of random weights
mkdir -p data/scitldr-a data/data
names=(cat dog owl fox hen rat)
for i in $(seq 60); do echo "{\"source\": [\"We study the ${names[i % 6]} and the ${names[i / 6 % 6]}.\", \"It is a ${names[i * 5 % 6]}.\"], \"target\": [\"a ${names[i * 5 % 6]}\"]}"; done >all
head -n 48 all >data/scitldr-a/train.jsonl; tail -n 12 all >data/scitldr-a/dev.jsonl
sed 's/{"source": \["\([^"]*\)", "\([^"]*\)"\], "target": \["\([^"]*\)"\]}/"\3","a ""title""","\1 \2"/; 1i headline,title,text' all >data/data/wikihowAll.csv
head -n 49 data/data/wikihowAll.csv >train.csv; { head -n 1 train.csv; tail -n 12 data/data/wikihowAll.csv; } >val.csv
mkdir t5; cp "$golden/tokenizer_unigram.json" t5/tokenizer.json
lockstep train t5-summarise --set run.name=hub --set train.steps=1 --set data.tokenizer=t5
files=$hub/google-t5/t5-base/resolve/$commit
mkdir -p "$files"; cp runs/hub/checkpoints/latest/{config.json,model.safetensors} t5/tokenizer.json "$files"
publish models/google-t5/t5-base "$(entry config.json "$files"),$(entry tokenizer.json "$files"),$(large model.safetensors "$files")"
sudo make deps install
curl -L --create-dirs --output-dir scitldr-a -O \
    'https://raw.githubusercontent.com/allenai/scitldr/master/SciTLDR-Data/SciTLDR-A/{train,dev}.jsonl'

lockstep get google-t5/t5-base tokenizer.json config.json
lockstep plan t5-summarise                                             # 128 MiB on one rank; needs no data
said 'MiB on one rank; needs no data'
lockstep train t5-summarise
has err "epoch 1 .*eval loss"; has runs/t5-summarise/metrics.jsonl '"step":1,"epoch":0,.*"lr":0.002,'; has runs/t5-summarise/metrics.jsonl '"step":13,"epoch":1,.*"lr":0.0014'
lockstep runs --metrics t5-summarise
lockstep export runs/t5-summarise/checkpoints/best --to model.pt
has out "model.pt: 50 tensors"

# ---- the table says the same, and any layout of FSDP1's computes the same bytes
lockstep train t5-summarise --set run.name=table --set data.train_text=train.csv --set data.eval_text=val.csv \
    --set data.source=text --set data.target=headline
cmp runs/t5-summarise/checkpoints/latest/model.safetensors runs/table/checkpoints/latest/model.safetensors || bad "$what: other weights"
lockstep train t5-summarise --set run.name=one --set train.micro_batch=1 --set train.steps=3
for words in FULL_SHARD SHARD_GRAD_OP NO_SHARD; do
    lockstep train t5-summarise --set run.name=$words --workers 2 --set train.micro_batch=1 --set train.steps=3 --set parallel.data=$words
    cmp runs/one/checkpoints/latest/model.safetensors runs/$words/checkpoints/latest/model.safetensors || bad "$what: other weights"
done
lockstep train t5-summarise --set run.name=hybrid --workers 4 --set train.micro_batch=1 --set train.steps=3 \
    --set "parallel={data: HYBRID_SHARD, mesh: {dp: 2, shard: 2}}"
cmp runs/one/checkpoints/latest/model.safetensors runs/hybrid/checkpoints/latest/model.safetensors || bad "$what: other weights"
for words in parallel.units=none parallel.units=size:1000 'parallel.units=pattern:encoder.block.*' parallel.prefetch.backward=0 parallel.prefetch.backward=BACKWARD_POST parallel.prefetch.forward=0 parallel.offload=cpu; do
    lockstep train t5-summarise --set run.name="$words" --workers 2 --set train.micro_batch=1 --set train.steps=3 --set parallel.gather=copy --set "$words"
    cmp runs/one/checkpoints/latest/model.safetensors "runs/$words/checkpoints/latest/model.safetensors" || bad "$what: other weights"
done
lockstep export runs/one --to sharded --format dcp --ranks 4 --optimizer
[ -e sharded/__3_0.distcp ] || bad "$what: not a file for each of 4 ranks"

# ---- the published model
lockstep get google-t5/t5-base
lockstep plan t5-base-wikihow --set model.init=random
said '222,903,552 parameters'
has out "222903552 parameters"; has out "4 x 4 samples of 512 and 150 tokens"
lockstep train t5-base-wikihow --set 'checkpoint.export_best=T5-model-{date}-{epoch}-{value}.pt'
has err "^init +google-t5/t5-base"; has err "epoch 1 .*eval loss"; has runs/t5-base-wikihow/metrics.jsonl '"memory":[0-9]+,"memory_most":[0-9]+,"memory_planned":[0-9]+'; has runs/t5-base-wikihow/metrics.jsonl '"step":1,"epoch":0,.*"lr":0.002,'
lockstep export runs/t5-base-wikihow/checkpoints/best --to t5-base-wikihow.pt
has out "t5-base-wikihow.pt: 50 tensors"
# the last improvement is the best checkpoint; its name has the value that result.json has
saved=$(ls -t runs/t5-base-wikihow/T5-model-20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]-[0-9][0-9]-[0-9][0-9]-[0-9][0-9]-[01]-*.pt | head -n 1)
cmp "$saved" t5-base-wikihow.pt || bad "$what: another model at the improvement"
value=${saved##*-}; value=${value%.pt}
grep -q "\"eval_loss\":${value%?}" runs/t5-base-wikihow/metrics.jsonl || grep -q "\"kind\":\"eval\".*\"loss\":${value%?}" runs/t5-base-wikihow/metrics.jsonl || bad "$what: no evaluation has $value"
refused 2 "checkpoint.export_best: x.bin: its name must end in" train t5-base-wikihow --set checkpoint.export_best=x.bin
refused 2 "checkpoint.export_best: has no effect with checkpoint.async true" train t5-base-wikihow --set checkpoint.export_best=x.pt --set checkpoint.async=true

# ---- the same in C
cc examples/t5_summarise.c $(pkg-config --cflags --libs lockstep) -o t5_summarise
ln -s t5 t5-base
lockstep launch --workers 2 ./t5_summarise train.csv val.csv t5-base runs in-c
has runs/in-c/result.json '"state":"finished"'

# ---- it ends with a summary
echo "We study the cat and the owl. It is a dog." >abstract.txt
lockstep predict t5-summarise --prompt "$(cat abstract.txt)" --beams 4 --length-penalty 2 --no-repeat 3
lockstep predict t5-summarise --out summaries.jsonl --beams 4 --tokens 64
[ "$(wc -l <summaries.jsonl)" = 12 ] || bad "$what: not a line for each of 12 pairs"
lockstep eval t5-summarise --generate --beams 4 --tokens 64
has out "^rouge1 "
finish
