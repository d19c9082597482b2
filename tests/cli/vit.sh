#!/bin/bash
# vit.sh COMMAND - tutorial 1 as a user walks through it (docs/tutorials/vit-fashion-mnist.md), on few pictures and a small model; and what goes wrong there.
source "$(dirname "$0")/common.sh"

# Fashion-MNIST's four files, of 80 and 24 pictures of 8 x 8
count() { printf '\\0\\0\\%03o\\%03o' $(($1 / 256)) $(($1 % 256)); }
images() { { printf '\0\0\010\003'; printf "$(count "$1")"; printf '\0\0\0\010\0\0\0\010'; head -c $((64 * $1)) /dev/urandom; } | gzip >"data/$2-images-idx3-ubyte.gz"; }
labels() { { printf '\0\0\010\001'; printf "$(count "$1")"; head -c $((60 * $1)) /dev/urandom | tr -cd '\000-\011' | head -c "$1"; } | gzip >"data/$2-labels-idx1-ubyte.gz"; }
mkdir data
images 80 train; labels 80 train; images 24 t10k; labels 24 t10k
cat >small.yaml <<END
include: vit-fashion-mnist
model: {image_size: 8, patch_size: 4, layers: 2, hidden_size: 32, mlp_size: 32}
data: {path: data}
train: {global_batch: 16}
threads: 1
END

# ---- two workers, a checkpoint each epoch, the whole model at the end
try 0 train small.yaml --workers 2 --set run.name=fsdp_mnist --set checkpoint.export=full_model/full-model.pt
has err "ranks +2 on 1 host"; has err "model  runs/fsdp_mnist/full_model/full-model.pt: 32 tensors"
try 0 export runs/fsdp_mnist --to full-model.pt
cmp full-model.pt runs/fsdp_mnist/full_model/full-model.pt || bad "the model at the end is not what export writes"
try 0 train small.yaml --dry-run --set run.name=other --set model.init=runs/fsdp_mnist/full_model/full-model.pt; has err "dry run"
rm -r runs/fsdp_mnist/full_model # asked for again, it is written from the last checkpoint
try 0 train small.yaml --workers 2 --set run.name=fsdp_mnist --set checkpoint.export=full_model/
has err "nothing to do"; has err "full_model/: 32 tensors"; [ -e runs/fsdp_mnist/full_model/.metadata ] || bad "no DCP directory"

# ---- the three best by the loss in training stay besides the newest, over a stop
try 0 train small.yaml --workers 2 --set run.name=three --set train.epochs=8 --set checkpoint.keep=1 --set checkpoint.keep_best=3 --set checkpoint.best.metric=loss --set train.steps=12
try 0 train small.yaml --workers 1 --set run.name=three --set train.epochs=8 --set checkpoint.keep=1 --set checkpoint.keep_best=3 --set checkpoint.best.metric=loss --set train.steps=40
wanted=$({ tail -n +2 runs/three/metrics.csv | sort -t, -k4,4g | head -n 3; tail -n 1 runs/three/metrics.csv; } | cut -d, -f2 | sort -nu | tr '\n' ' ')
there=$(ls runs/three/checkpoints | sed -n 's/^step-0*//p' | sort -n | tr '\n' ' ')
[ "$wanted" = "$there" ] || { bad "$what: the checkpoints of steps $there are there instead of $wanted"; cat runs/three/metrics.csv; }

# ---- mixed precision: for the whole model, for some modules, with a scaler of one's own; and what cannot be
try 0 train small.yaml --workers 2 --set run.name=half --set precision.param=f16 --set precision.reduce=f16 --set "precision.scaler={init: 1e12, growth: 4, backoff: 0.125, interval: 3}"
has runs/half/metrics.jsonl '"step":1,.*"skipped":true'; has runs/half/metrics.jsonl '"skipped":false'
try 0 train small.yaml --workers 2 --set run.name=norms --set precision.param=bf16 --set precision.modules=class:LayerNorm=f32,output=bf16
try 0 plan small.yaml --workers 2 --set precision.param=bf16 --set precision.modules=class:LayerNorm=f32,output=bf16; has out "compute bf16, class:LayerNorm=f32,output=bf16"
try 0 inspect small.yaml --set precision.param=bf16 --set precision.modules=class:LayerNorm=f32; has out "ln_1"
refused 2 "precision.modules: class:Norm: the model has no module that matches" train small.yaml --set precision.param=bf16 --set precision.modules=class:Norm=f32
refused 2 "precision.modules: 'LayerNorm': a word is class:NAME=TYPE" train small.yaml --set precision.modules=LayerNorm
refused 2 "precision.cast_forward_inputs: false, and linear of module conv_proj gets operands of several" train small.yaml --set precision.param=bf16 --set precision.cast_forward_inputs=false
refused 2 "precision.scaler.init: has no effect: nothing computes in f16" train small.yaml --set precision.scaler.init=8

finish
