#!/bin/bash
# Tutorial 1: a vision transformer on Fashion-MNIST, sharded over two workers. (tests/cli/vit.sh tests its options, and what goes wrong.)
source "$(dirname "$0")/page.sh"
tiny=(--set train.global_batch=16 --set train.steps=12 --set threads=1)
idx_data data/fashion-mnist 128 32 28
sudo make deps install

lockstep train vit-fashion-mnist --workers 2 --set run.name=fsdp_mnist \
    --set precision.param=f16 --set precision.reduce=f16 --set parallel.offload=cpu \
    --set checkpoint.export=full_model/full-model.pt
has err "ranks +2 on 1 host"; has err "model  runs/fsdp_mnist/full_model/full-model.pt: 128 tensors"
lockstep runs --metrics fsdp_mnist
has out best
lockstep predict runs/fsdp_mnist --count 9 --out predictions.png
has out "of 9 right"
lockstep eval runs/fsdp_mnist
has out "accuracy .* of 32\)"
python -c 'import torch; print(len(torch.load("runs/fsdp_mnist/full_model/full-model.pt", weights_only=True)))'

# ---- a failure; the sharding granularity, without a step
LOCKSTEP_FAULT=kill@300:rank=1 lockstep train vit-fashion-mnist --workers 2 --set run.name=again --set failure.max_failures=1
has err "restart 1 of 1"; has runs/again/result.json '"state":"finished"'
lockstep plan vit-fashion-mnist --workers 2 --compare 'parallel.units=class:EncoderBlock,none,size:50000'
has out "size:50000"

# ---- the tutorial's loss: the mean over all epochs so far
awk -F, 'NR > 1 { sum += $4; print $1, sum / (NR - 1) }' runs/fsdp_mnist/metrics.csv
has runs/fsdp_mnist/metrics.csv "^epoch,step,samples,train_loss,"

# ---- StateDictOptions
lockstep export runs/fsdp_mnist --to block.pt --module encoder.layers.encoder_layer_3
has out "block.pt: 12 tensors"
lockstep export runs/fsdp_mnist --to bare.pt --module encoder.layers.encoder_layer_3 --strip-prefix
has out "bare.pt: 12 tensors"
lockstep train vit-fashion-mnist --set run.name=frozen --set 'train.freeze=encoder.layers conv_proj' \
    --set train.steps=12
lockstep export runs/frozen --to trained.pt --ignore-frozen
has out "trained.pt: 6 tensors"
lockstep train vit-fashion-mnist --set run.name=partly --set model.init=trained.pt \
    --set model.init_strict=false --set train.steps=12
has err "122 of the model's 128 tensors are not there and stay as they are"

# ---- what is sharded, and when it moves
lockstep explain vit-fashion-mnist --workers 2 --rank 1 --set parallel.gather=copy | less
has out all_gather
lockstep explain vit-fashion-mnist --workers 2 --param encoder.layers.encoder_layer_3.mlp.0.weight
has out "unit encoder.layers.encoder_layer_3"
lockstep inspect vit-fashion-mnist --workers 2
has out "rank 1"

# ---- what saves memory, at the real size
lockstep plan vit-fashion-mnist --workers 2 --set parallel.gather=copy \
    --compare parallel.reshard_after_forward=true,false --compare parallel.recompute=none,units
said '^\| `reshard_after_forward: true` \|' 1
said '^\| `reshard_after_forward: false` \|' 3
said '^\| true, `recompute: units` \|' 2
lockstep plan vit-fashion-mnist --workers 2 --set parallel.gather=copy \
    --compare precision.param=f32,f16 --compare parallel.offload=none,cpu
said '^\| true, `precision.param: f16` \|' 3
said '^\| true, `offload: cpu` \|' 2
said '^\| all of the tutorial' 4

# ---- files, and memory while it trains
ls runs/fsdp_mnist runs/fsdp_mnist/checkpoints/latest/
lockstep train vit-fashion-mnist --workers 2 --set run.name=profiled --set train.steps=12 --profile=4:8
has err "trace of steps 4 to 8: runs/profiled/log/rank-0.trace.json"; has err "peak .* in unit encoder.layers.encoder_layer_"
lockstep train vit-fashion-mnist --workers 2 --set run.name=scheduled --set train.steps=12 \
    --profile=wait=1,warmup=1,active=3,repeat=2
has err "trace of steps 8 to 10: runs/scheduled/log/rank-0.2.trace.json"

# ---- the same in C
cc examples/vit_fsdp.c $(pkg-config --cflags --libs lockstep) -o vit_fsdp
lockstep launch --workers 2 ./vit_fsdp fashion-mnist runs in-c
has runs/in-c/result.json '"state":"finished"'; has runs/in-c/result.json '"epoch":4'
has runs/in-c/log/rank-1.trace.json ProfilerStep; has runs/in-c/log/rank-0.memory.html '<svg'
lockstep inspect runs/in-c/full-model.pt
has out "elements in 128 tensors"
finish
