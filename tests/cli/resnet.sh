#!/bin/bash
# resnet.sh COMMAND - options around tutorial 2 (whose commands are in tutorials/resnet18-mnist.sh), in a few steps on few images; and what goes wrong: one message each.
source "$(dirname "$0")/common.sh"

idx_data data 40 24 8
recipe="resnet18-mnist --set run.name=mine --set data.path=data --set model.image_size=8 --set train.global_batch=16 --set threads=1"

# ---- two epochs on two workers, and what they left
try 0 train $recipe --workers 2
has err "epoch 1  .*accuracy"
[ "$(wc -l <runs/mine/metrics.csv)" -eq 3 ] || { bad "metrics.csv has not two epochs:"; cat runs/mine/metrics.csv; }

# ---- synchronized batch norm: the number of ranks counts
sync="--set run.name=sync --set parallel.sync_batch_norm=true"
try 0 train $recipe $sync --workers 2 --set train.steps=1
refused 2 "ranks: 1 here, 2 there .*batch norm.*--allow-change" train $recipe $sync --set train.steps=2
refused 2 "parallel.synchronize: once .*say auto or each" train $recipe $sync --workers 2 --set parallel.synchronize=once
refused 2 "sync_batch_norm: this key is for model.type resnet18" train mlp-mnist --set parallel.sync_batch_norm=true
try 0 plan $recipe $sync --workers 2; has out "not promised to be those of other layouts: parallel.sync_batch_norm"

# ---- another model, other pictures, no checkpoint
refused 2 "--set model.in_channels: .*has images of 1 x 8 x 8 .*takes 3 x 8 x 8.*in_channels 1" train $recipe --set run.name=colour --set model.in_channels=3
refused 2 "rank [01]: .*has images of 1 x 8 x 8" train $recipe --set run.name=colour --set model.in_channels=3 --workers 2
refused 1 "does not fit the model \(122 tensors in the file, 218 wanted\): 96 missing: layer1.2.conv1.weight" \
    train $recipe --set run.name=deeper --set model.type=resnet34 --set model.init=runs/mine/checkpoints/latest
refused 2 "--set model.type: the weights are those of another model: .*does not fit the model \(122 tensors in the file, 218 wanted\)" predict runs/mine --set model.type=resnet34
refused 2 "model.type: resnet34 here, resnet18 there" train $recipe --set model.type=resnet34 --set train.epochs=3
printf 'P5 300 200 255\n' >large.pgm; head -c 60000 /dev/urandom >>large.pgm
refused 1 "large.pgm: image of 300 x 200 pixels .*takes 8 x 8.*--resize" predict runs/mine large.pgm
try 0 predict runs/mine large.pgm --resize
mkdir -p runs/begun; cp runs/mine/recipe.yaml runs/begun/
refused 1 "runs/begun: the run has no checkpoint yet" predict runs/begun
refused 1 "runs/begun: the run has no checkpoint yet" eval runs/begun
refused 2 "there is no run yet" predict resnet18-mnist

# ---- MNIST's files, damaged or not there; on two ranks one of them says so
cp -r data whole
again() { rm -rf data; cp -r whole data; }
fresh="$recipe --set run.name=fresh"
head -c 1500 whole/train-images-idx3-ubyte.gz >data/train-images-idx3-ubyte.gz
refused 1 "train-images-idx3-ubyte.gz: gzip data truncated at offset 1500.*get the file again" train $fresh
refused 1 "rank [01]: data/train-images-idx3-ubyte.gz: gzip data truncated" train $fresh --workers 2
echo "<html>not found</html>" >data/train-images-idx3-ubyte.gz
refused 1 "train-images-idx3-ubyte.gz: not an IDX file.*get the file again" train $fresh
again; cp whole/train-labels-idx1-ubyte.gz data/train-images-idx3-ubyte.gz
refused 1 "train-images-idx3-ubyte.gz: IDX file with 1 dimensions .*are images and labels swapped" train $fresh
again; cp whole/t10k-labels-idx1-ubyte.gz data/train-labels-idx1-ubyte.gz
refused 1 "train-labels-idx1-ubyte.gz: 24 labels .*holds 40 images; the two files do not belong together" train $fresh
again; rm data/t10k-labels-idx1-ubyte.gz
refused 1 "t10k-labels-idx1-ubyte.gz .*is missing beside the other files of mnist; put it there" train $fresh
rm data/*
refused 2 "--set data.path: data holds neither train-images-idx3-ubyte.gz nor a folder mnist/" train $fresh
refused 2 "--set data.path: gone: no such folder" train $fresh --set data.path=gone
refused 1 "--set data.path: mnist is neither in LOCKSTEP_DATA \(not set\) nor in .*put the files there, or name their folder here" \
    train $fresh --set data.path= --set data.download=false --set data.fallback=false
[ ! -e runs/fresh ] || bad "a run without data left a folder"

finish
echo "all as it should be"
