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

# ---- what it left, what it says of pictures, and how it stands on those that it has not seen
try 0 runs --metrics fsdp_mnist; has out "best"
try 0 predict runs/fsdp_mnist --count 9 --out predictions.png; has out "of 9 right"
try 0 eval runs/fsdp_mnist; has out "accuracy"

# ---- what is sharded, and when it moves; which granularity, resharding, recomputation, precision and offload take how much
try 0 explain small.yaml --workers 2 --rank 1 --set parallel.gather=copy; has out "all_gather"
try 0 explain small.yaml --workers 2 --param encoder.layers.encoder_layer_1.mlp.0.weight; has out "unit encoder.layers.encoder_layer_1"
try 0 inspect small.yaml --workers 2; has out "rank 1"
try 0 plan small.yaml --workers 2 --compare 'parallel.units=class:EncoderBlock,none,size:5000'; has out "size:5000"
try 0 plan small.yaml --workers 2 --set parallel.gather=copy --compare parallel.reshard_after_forward=true,false --compare parallel.recompute=none,units; has out "units"
try 0 plan small.yaml --workers 2 --set parallel.gather=copy --compare precision.param=f32,f16 --compare parallel.offload=none,cpu; has out "f16"
refused 1 "device_memory: a step needs .* and may use 40.0 KiB; " train small.yaml --workers 2 --set run.name=large --set device_memory=40KiB

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

# ---- profiles: a range, and a schedule as torch.profiler has it; a trace and a page of memory for each rank and repetition
try 0 train small.yaml --workers 2 --set run.name=profiled --set train.steps=12 --profile=4:8
has err "trace of steps 4 to 8: runs/profiled/log/rank-0.trace.json"; has err "memory.html; peak .* in unit encoder.layers.encoder_layer_[01] .*; unit encoder"
for rank in 0 1; do has runs/profiled/log/rank-$rank.trace.json 'ProfilerStep#8'; has runs/profiled/log/rank-$rank.memory.html "The peak by unit and category"; done
try 0 train small.yaml --workers 2 --set run.name=scheduled --set train.steps=12 --profile=wait=1,warmup=1,active=3,repeat=2
has err "trace of steps 3 to 5: runs/scheduled/log/rank-0.1.trace.json"; has err "trace of steps 8 to 10: runs/scheduled/log/rank-0.2.trace.json"
[ "$(ls runs/scheduled/log | grep -c 'rank-[01].[12].\(trace.json\|memory.html\)')" -eq 8 ] || bad "$what: not two files of two repetitions of two ranks"
has runs/scheduled/log/rank-1.2.trace.json 'ProfilerStep#8.*ProfilerStep#9.*ProfilerStep#10'; has runs/scheduled/log/rank-1.2.trace.json '"Input Dims":\[\[8,5,32\]'
times 0 runs/scheduled/log/rank-1.2.trace.json 'ProfilerStep#[1-7]"'
for wrong in active=0 wait=1 wait=1,active=2,active=3 active=x active=-1 sleep=1,active=1 active=1, 8:4 x; do refused 2 "^error: --profile=$wrong: FIRST:LAST.*or a schedule" train small.yaml --profile=$wrong; done

# ---- state dicts: one module of it, with and without its prefix, without what is frozen; and back, strictly or not
try 0 export runs/fsdp_mnist --to block.pt --module encoder.layers.encoder_layer_1; has out "block.pt: 12 tensors"
try 0 inspect block.pt; has out "encoder_layer_1"
try 0 export runs/fsdp_mnist --to bare.pt --module encoder.layers.encoder_layer_1 --strip-prefix; has out "bare.pt: 12 tensors"
try 0 inspect bare.pt; has out "^ *ln_1"; times 0 out "encoder_layer_1"
refused 2 "--module encoder.layer: .* has no such tensor" export runs/fsdp_mnist --to none.pt --module encoder.layer
refused 2 "--strip-prefix: say which module's" export runs/fsdp_mnist --to none.pt --strip-prefix
try 0 train small.yaml --set run.name=frozen --set "train.freeze=encoder.layers conv_proj" --set train.steps=2
try 0 export runs/frozen --to trained.safetensors --ignore-frozen; has out "trained.safetensors: 6 tensors"
refused 2 "--ignore-frozen: .* no recipe" export block.pt --to none.pt --ignore-frozen
refused 1 "does not fit the model .*26 missing" train small.yaml --set run.name=strict --set model.init=trained.safetensors
try 0 train small.yaml --set run.name=partly --set model.init=trained.safetensors --set model.init_strict=false --set train.steps=1
has err "26 of the model's 32 tensors are not there and stay as they are: "
try 0 train small.yaml --set run.name=other --set model.init=full-model.pt --set model.init_strict=false --set model.layers=1 --set train.steps=1
has err "12 tensors are not the model's and are passed over"
refused 1 "does not fit the model .*32 missing" train small.yaml --set run.name=none --set model.init=bare.pt --set model.init_strict=false

finish
