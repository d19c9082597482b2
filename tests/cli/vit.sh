#!/bin/bash
# vit.sh COMMAND - options around tutorial 1 (whose commands are in tutorials/vit-fashion-mnist.sh), on few images and a small model: exports, the best checkpoints, mixed
# precision, profiles, parts of state dicts; and what goes wrong, one message each.
source "$(dirname "$0")/common.sh"

idx_data data 80 24 8
cat >small.yaml <<END
include: vit-fashion-mnist
model: {image_size: 8, patch_size: 4, layers: 2, hidden_size: 32, mlp_size: 32}
data: {path: data}
train: {global_batch: 16}
threads: 1
END

# ---- the whole model at the end, and asked for again
try 0 train small.yaml --workers 2 --set run.name=fsdp_mnist --set checkpoint.export=full_model/full-model.pt
try 0 export runs/fsdp_mnist --to full-model.pt
cmp full-model.pt runs/fsdp_mnist/full_model/full-model.pt || bad "the model at the end is not what export writes"
try 0 train small.yaml --dry-run --set run.name=other --set model.init=runs/fsdp_mnist/full_model/full-model.pt; has err "dry run"
rm -r runs/fsdp_mnist/full_model # asked for again, it is written from the last checkpoint
try 0 train small.yaml --workers 2 --set run.name=fsdp_mnist --set checkpoint.export=full_model.dcp
has err "nothing to do"; has err "full_model.dcp: 32 tensors"; [ -e runs/fsdp_mnist/full_model.dcp/.metadata ] || bad "no DCP directory"

# ---- less memory than a step needs
refused 2 "device_memory: a step needs .* and may use 40.0 KiB; " train small.yaml --workers 2 --set run.name=large --set device_memory=40KiB

# ---- the three best by the loss in training stay besides the newest, over a stop; `loss` is its older name
try 0 train small.yaml --workers 2 --set run.name=three --set train.epochs=8 --set checkpoint.keep=1 --set checkpoint.keep_best=3 --set checkpoint.best.metric=loss --set train.steps=12
try 0 train small.yaml --workers 1 --set run.name=three --set train.epochs=8 --set checkpoint.keep=1 --set checkpoint.keep_best=3 --set checkpoint.best.metric=train_loss --set train.steps=40
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

# ---- profiles: a range, and a schedule as torch.profiler has it; a trace and a page of memory for each rank and repetition
try 0 train small.yaml --workers 2 --set run.name=profiled --set train.steps=12 --profile=4:8
for rank in 0 1; do has runs/profiled/log/rank-$rank.trace.json 'ProfilerStep#8'; has runs/profiled/log/rank-$rank.memory.html "The peak by unit and category"; done
try 0 train small.yaml --workers 2 --set run.name=scheduled --set train.steps=12 --profile=wait=1,warmup=1,active=3,repeat=2
has err "trace of steps 3 to 5: runs/scheduled/log/rank-0.1.trace.json"; has err "trace of steps 8 to 10: runs/scheduled/log/rank-0.2.trace.json"
[ "$(ls runs/scheduled/log | grep -c 'rank-[01].[12].\(trace.json\|memory.html\)')" -eq 8 ] || bad "$what: not two files of two repetitions of two ranks"
has runs/scheduled/log/rank-1.2.trace.json 'ProfilerStep#8.*ProfilerStep#9.*ProfilerStep#10'; has runs/scheduled/log/rank-1.2.trace.json '"Input Dims":\[\[8,5,32\]'
times 0 runs/scheduled/log/rank-1.2.trace.json 'ProfilerStep#[1-7]"'
for wrong in active=0 wait=1 wait=1,active=2,active=3 active=x active=-1 sleep=1,active=1 active=1, 8:4 x; do refused 2 "^error: --profile=$wrong: write FIRST:LAST .*or a schedule" train small.yaml --profile=$wrong; done

# ---- state dicts: one module of it, with and without its prefix, without what is frozen; and back, strictly or not
try 0 export runs/fsdp_mnist --to block.pt --module encoder.layers.encoder_layer_1
try 0 inspect block.pt; has out "encoder_layer_1"
try 0 export runs/fsdp_mnist --to bare.pt --module encoder.layers.encoder_layer_1 --strip-prefix
try 0 inspect bare.pt; has out "^ *ln_1"; times 0 out "encoder_layer_1"
refused 2 "--module encoder.layer: .* has no such tensor" export runs/fsdp_mnist --to none.pt --module encoder.layer
refused 2 "--strip-prefix needs --module NAME" export runs/fsdp_mnist --to none.pt --strip-prefix
try 0 train small.yaml --set run.name=frozen --set "train.freeze=encoder.layers conv_proj" --set train.steps=2
try 0 export runs/frozen --to trained.safetensors --ignore-frozen; has out "trained.safetensors: 6 tensors"
refused 2 "--ignore-frozen: .* no recipe" export block.pt --to none.pt --ignore-frozen
refused 1 "does not fit the model .*26 missing" train small.yaml --set run.name=strict --set model.init=trained.safetensors
try 0 train small.yaml --set run.name=partly --set model.init=trained.safetensors --set model.init_strict=false --set train.steps=1
has err "26 of the model's 32 tensors are not there and stay as they are:$"
try 0 train small.yaml --set run.name=other --set model.init=full-model.pt --set model.init_strict=false --set model.layers=1 --set train.steps=1
has err "12 tensors are not the model's and are passed over"
refused 1 "does not fit the model .*32 missing" train small.yaml --set run.name=none --set model.init=bare.pt --set model.init_strict=false

finish
