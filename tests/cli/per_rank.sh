#!/bin/bash
# per_rank.sh COMMAND - checkpoints with a file for each rank: whoever reads a checkpoint reads these, on any number of ranks, and a run goes on with the same
# bits; damage is one message.
source "$(dirname "$0")/common.sh"

cat >r.yaml <<END
model: {type: mlp, hidden: [48, 32]}
data: {type: shapes}
train: {epochs: 1, steps: 12, global_batch: 16, micro_batch: 4}
optimizer: {type: adamw, lr: 1e-3, weight_decay: 1e-2}
eval: {every_epochs: 1}
checkpoint: {every_steps: 3, keep: 2, export: model.safetensors}
threads: 1
END
files() { ls "$1" | grep -c -- '-rank-0000[0-9].safetensors$'; }
# exported NAME: the whole model and the state of the optimizer are those of the run `whole`
exported() {
    try 0 export "runs/$1" --to model.safetensors --force
    cmp model.safetensors runs/whole/checkpoints/latest/model.safetensors || bad "$1: another model"
    try 0 export "runs/$1" --to dcp --format dcp --force --optimizer --ranks 2
    diff -r dcp whole_dcp || bad "$1: another state of the optimizer"
}

try 0 train r.yaml --set run.name=whole
try 0 export runs/whole --to whole_dcp --format dcp --optimizer --ranks 2

# ---- on 4 ranks, then on 2 that write it beside training, then on 1 that split nothing: the same bits
try 0 train r.yaml --set run.name=ranks --set checkpoint.files=per_rank --workers 4 --set train.steps=4
latest=runs/ranks/checkpoints/latest
[ "$(files $latest)" = 8 ] || bad "$what: other files: $(ls $latest)"
[ ! -e $latest/model.safetensors ] || bad "$what: model.safetensors is there too"
try 0 inspect runs/ranks --verify; has out "every byte of 10 files matches the manifest"; has out "39,808 parameters|weight +37,632"
try 0 train r.yaml --set run.name=ranks --set checkpoint.files=per_rank --set checkpoint.async=true --workers 2 --set train.steps=8
has err "continues after step 4"; [ "$(files $latest)" = 4 ] || bad "$what: other files: $(ls $latest)"
try 0 train r.yaml --set run.name=ranks --set checkpoint.files=per_rank
has err "continues after step 8"; [ "$(files $latest)" = 2 ] || bad "$what: other files: $(ls $latest)"
exported ranks
cmp runs/ranks/model.safetensors runs/whole/model.safetensors || bad "checkpoint.export: another model"
[ "$(ls runs/ranks/checkpoints | grep -c step-)" = 2 ] || bad "$what: not 2 checkpoints"
same_losses() { for run in whole "$1"; do grep -o '"kind":"step","step":[0-9]*,"epoch":[0-9]*,"loss":[^,]*' "runs/$run/metrics.jsonl" >"$run.losses"; done; cmp whole.losses "$1.losses" || bad "$1: other losses"; }
same_losses ranks

# ---- layers that are split over ranks (axis tp) beside fsdp, whose ranks have columns; from there to no split and to whole files
for files in per_rank whole; do
    tp=(--set run.name=tp-$files --set checkpoint.files=$files --set 'parallel.mesh={dp: auto, tp: 2}' --set 'parallel.tensor=colwise:0 rowwise:1')
    try 0 train r.yaml "${tp[@]}" --workers 4 --set train.steps=4
    try 0 train r.yaml "${tp[@]}" --workers 2 --set train.steps=7
    [ "$(files runs/tp-$files/checkpoints/latest)" = $([ $files = whole ] && echo 0 || echo 4) ] || bad "$what: other files"
    try 0 train r.yaml --set run.name=tp-$files
done
for file in model optimizer; do cmp runs/tp-{per_rank,whole}/checkpoints/latest/$file.safetensors || bad "tp: another $file"; done

# ---- evaluating, predicting's weights, another run's beginning
try 0 train r.yaml --set run.name=files --set checkpoint.files=per_rank --workers 3 --set train.global_batch=12 --set train.micro_batch=4 --set train.steps=3
try 0 eval runs/files; has out "^loss [0-9.]* +accuracy"
try 0 export runs/files --to files.safetensors
grep -q '>finished<' runs/files/report.html || bad "$what: no report"
try 0 train r.yaml --set run.name=one --set train.global_batch=12 --set train.micro_batch=4 --set train.steps=3
for run in files one; do try 0 export runs/$run --to $run-dcp --format dcp --optimizer; done
diff -r files-dcp one-dcp || bad "$what: another state of the optimizer"
for init in runs/files/checkpoints/latest files.safetensors; do
    try 0 train r.yaml --set run.name="from-$(basename $init)" --set model.init=$init --set train.steps=2 --set checkpoint.export=
done
cmp runs/from-latest/checkpoints/latest/model.safetensors runs/from-files.safetensors/checkpoints/latest/model.safetensors || bad "$what: other weights"

# ---- damage, and what cannot be
refused 2 "checkpoint.max_file: has no effect with checkpoint.files per_rank" train r.yaml --set checkpoint.files=per_rank --set checkpoint.max_file=1MiB
refused 2 "holds only what rank 1 of 3 wrote of a checkpoint: name the folder" inspect runs/files/checkpoints/latest/model-rank-00001.safetensors
more="--set run.name=files --set checkpoint.files=per_rank --set train.global_batch=12 --set train.steps=6"
file=$(readlink -f runs/files/checkpoints/latest)/optimizer-rank-00002.safetensors
cp "$file" saved
printf X | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 2)) conv=notrunc 2>/dev/null
refused 1 "optimizer-rank-00002.safetensors: bytes .* are damaged: tensor" train r.yaml $more --workers 3
refused 1 "optimizer-rank-00002.safetensors: bytes .* are damaged: tensor" inspect runs/files --verify
truncate -s -1 "$file"
refused 1 "optimizer-rank-00002.safetensors: holds [0-9]* bytes, the manifest says" train r.yaml $more
rm "$file"
refused 1 "optimizer-rank-00002.safetensors: not there, but the manifest" train r.yaml $more --workers 3
cp saved "$file"
try 0 train r.yaml $more --workers 3
finish
