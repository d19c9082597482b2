#!/bin/bash
# Tutorial 3: Qwen2.5 on lines of wikitext, tensor parallel beside FSDP. (tests/cli/language.sh compares losses with PyTorch's, text.sh tests options, and what
# goes wrong.)
source "$(dirname "$0")/page.sh"
needs curl
sizes=(--set model.layers=2 --set model.heads=4 --set model.kv_heads=2 --set model.hidden_size=32 --set model.mlp_size=48 --set model.vocab_size=425)
tiny=("${sizes[@]}" --set data.seq_length=32 --set threads=1)
# wikitext-2 is lines of this project's; the hub's Qwen2.5 a small one of random weights
mkdir -p data/wikitext-2 data/qwen2.5
for i in $(seq 1000); do echo "the $i quick brown foxes jump over the lazy dog, and $((i * 7919 % 613)) of them stay"; done | tee data/wikitext-2/train.txt >data/wikitext-2/test.txt
cp "$golden/tokenizer_bpe.json" data/qwen2.5/tokenizer.json
lockstep train qwen2.5-wikitext --set model.init=random --workers 1 --set parallel.mesh='{dp: auto}' --set run.name=hub --set train.steps=1 --set data.tokenizer=qwen2.5
files=$hub/Qwen/Qwen2.5-0.5B/resolve/$commit
mkdir -p "$files"; cp runs/hub/checkpoints/latest/{config.json,model.safetensors} data/qwen2.5/tokenizer.json "$files"
publish models/Qwen/Qwen2.5-0.5B "$(entry config.json "$files"),$(entry tokenizer.json "$files"),$(large model.safetensors "$files")"
sudo make deps install
curl -L --create-dirs --output-dir wikitext-2 -O \
    https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/train.txt

lockstep get Qwen/Qwen2.5-0.5B
has out "^Qwen/Qwen2.5-0.5B: 3 files"
lockstep train qwen2.5-wikitext
has err "dp=2 x tp=2"; has err "^init +Qwen/Qwen2.5-0.5B"; has err "^epoch 0 +step 20/20"; has err "^data .*: 50 "
lockstep train qwen2.5-wikitext --set train.epochs=2               # RUN_RESUME_DEMO: epoch 1, steps 21 to 40
has err "continues after step 20 of 40"; has err "^epoch 1 +step 40/40"
head -n 25 data/wikitext-2/train.txt >few.txt
refused 2 "fewer than the 2 of one batch: .*data.train_percentage is 5: a larger one takes more" train qwen2.5-wikitext --set data.train_text=few.txt --set run.name=few
lockstep predict qwen2.5-wikitext --prompt "The"
lockstep predict qwen2.5-wikitext --prompt "The" --workers 2       # split over two ranks
lockstep eval qwen2.5-wikitext --set data.eval_text=wikitext-2/test.txt
has out perplexity

# ---- without the weights
here="--set model.init=random --set data.train_text=wikitext-2/test.txt --set data.tokenizer=qwen2.5"
here="$here --set data.train_percentage=100"
lockstep plan qwen2.5-wikitext $here
has out "494032768 parameters"
said 'GiB a rank, and .* once for the four'
lockstep explain qwen2.5-wikitext $here --rank 1 | less                  # every op and collective of rank 1
has out "all_reduce .*over tp"
lockstep explain qwen2.5-wikitext $here --param model.layers.0.self_attn.o_proj.weight
lockstep train qwen2.5-wikitext $here --set train.steps=3 --set run.name=random
has err "^init +random weights"

# ---- a small form
small="--set model.layers=4 --set model.hidden_size=256 --set model.heads=4 --set model.mlp_size=768"
lockstep train qwen2.5-wikitext $here $small --set run.name=small
lockstep train qwen2.5-wikitext $here $small --set run.name=small --set train.epochs=2
has err "continues after step 20 of 40"
lockstep inspect runs/small/checkpoints/latest
lockstep export runs/small --to small.safetensors
python -c 'from transformers import AutoModelForCausalLM as M
print(M.from_pretrained("runs/small/checkpoints/latest"))'

# ---- the same in C: an epoch, then the second one
cc examples/qwen_2d.c $(pkg-config --cflags --libs lockstep) -o qwen_2d
ln -s "$files" Qwen2.5-0.5B; ln -s data/wikitext-2 .
lockstep launch --workers 4 ./qwen_2d Qwen2.5-0.5B wikitext-2/train.txt runs mine 20
has out "^epoch 0  step 16"
lockstep launch --workers 4 ./qwen_2d Qwen2.5-0.5B wikitext-2/train.txt runs mine 20 2
has out "^epoch 1  step 16"

# ---- a larger model
size="--set model.layers=28 --set model.hidden_size=3584 --set model.heads=28 \
    --set model.kv_heads=4 --set model.mlp_size=18944 --set model.vocab_size=152064"
size="$size --set model.tied=false --set data.seq_length=2048 --set model.init=random"
lockstep plan qwen2.5-wikitext --workers 8 --set 'parallel.mesh={dp: auto, tp: 4}' $size \
    --compare parallel.recompute=none,units --compare parallel.sequence=false,true
for row in 'parameters, f32' gradients "AdamW's moments" activations 'in all, as packed' 'beside it'; do said "^\\| $row"; done
lockstep plan qwen2.5-wikitext --workers 8 --set 'parallel.mesh={dp: auto, tp: 4}' $size --set data.seq_length=8192 --compare parallel.recompute=none,units
said 'lowers the memory in all from'
finish
