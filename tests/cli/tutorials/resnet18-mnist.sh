#!/bin/bash
# Tutorial 2: ResNet18 on MNIST, copied to two workers and to four. (tests/cli/resnet.sh tests its options, and what goes wrong.)
source "$(dirname "$0")/page.sh"
tiny=(--set train.global_batch=16 --set train.steps=2 --set threads=1)
idx_data data/mnist 128 24 28
sudo make deps install

lockstep train resnet18-mnist --workers 2 --set run.name=distributed-mnist-resnet18
has err "ranks +2 on 1 host"; has err ddp; has runs/distributed-mnist-resnet18/recipe.yaml "micro_batch: 8"
lockstep runs
has out "^distributed-mnist-resnet18 +finished +2 "
cat runs/distributed-mnist-resnet18/metrics.csv
lockstep eval runs/distributed-mnist-resnet18
has out "accuracy .* of 24\)"
lockstep predict runs/distributed-mnist-resnet18 --count 9 --out predictions.png
has out "of 9 right"; [ "$(head -c 4 predictions.png | tail -c 3)" = PNG ] || bad "predictions.png is not a PNG"
lockstep export runs/distributed-mnist-resnet18 --to model.pt
has out "122 tensors"
python -c 'import torch; print(len(torch.load("model.pt", weights_only=True)))'        # 122 tensors

# ---- the activity: four workers, by the configuration alone
lockstep train resnet18-mnist --workers 4 --set run.name=four
has err "ranks +4 on 1 host"; has runs/four/recipe.yaml "micro_batch: 4"

# ---- the program, of which rank 1 is killed on the way
cc examples/resnet_mnist.c $(pkg-config --cflags --libs lockstep) -o resnet_mnist
export LOCKSTEP_FAULT=kill@22:rank=1
lockstep launch --workers 2 --max-failures 3 ./resnet_mnist mnist runs mine
unset LOCKSTEP_FAULT
has err "restart 1 of 3"; has runs/mine/result.json '"state":"finished"'

# ---- the loss of the last step of each epoch
lockstep runs --metrics distributed-mnist-resnet18 --steps --csv | awk -F, 'NR > 1 { last[$2] = $4 }
    END { for (epoch in last) print epoch, last[epoch] }'
has out "^2,[0-9]+,16,[0-9.]+,"

# ---- a schedule
lockstep train resnet18-mnist-cosine
lockstep train resnet18-mnist --set train.epochs=1 --set optimizer.lr=1e-3 --set schedule.type=cosine
cmp runs/resnet18-mnist-cosine/checkpoints/latest/model.safetensors runs/resnet18-mnist/checkpoints/latest/model.safetensors || bad "said in full it is another run"
finish
