#!/usr/bin/env bash
# augment.sh COMMAND - training on images that are changed at random: the same bits on 1, 2 and 4 ranks, for any number of threads, and after a kill in the
# middle of an epoch; evaluations are not changed; `data.augment: none`; what `lockstep data` shows.
source "$(dirname "$0")/common.sh"

cat >aug.yaml <<'END'
run: {name: aug}
model: {type: mlp, hidden: [16]}
data:
  type: shapes
  augment: {crop: padded, flip: 0.5, randaugment: {ops: 2}, jitter: {brightness: 0.4, contrast: 0.4}, erase: 0.25, mixup: 0.2, cutmix: 1.0}
train: {epochs: 2, steps_per_epoch: 12, global_batch: 64, micro_batch: 16, label_smoothing: 0.1}
optimizer: {lr: 1e-3}
checkpoint: {every_steps: 5}
END
run=(train aug.yaml -q --no-progress)

# ---- the same bits on any number of ranks and threads, killed at any point and resumed on other ranks
try 0 "${run[@]}" --set run.name=whole
for ranks in 2 4; do
    try 0 "${run[@]}" --set run.name=on$ranks --workers $ranks
    same on$ranks
done
try 0 "${run[@]}" --set run.name=threads --set threads=1
same threads
for from in 1 2; do
    "$lockstep" "${run[@]}" --set run.name=killed$from --workers $from >out 2>err &
    until_true test -e runs/killed$from/checkpoints/latest
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    until_true free killed$from
    try 0 "${run[@]}" --set run.name=killed$from --workers $((4 / from))
    same killed$from
done

# ---- each change of the recipe trains on something else; `none` is what nothing is
first_loss() { sed -n '1s/.*"loss":\([^,]*\),.*/\1/p' "runs/$1/metrics.jsonl"; }
one=(train aug.yaml -q --no-progress --set train.steps=1 --set data.augment=none --set train.label_smoothing=0)
try 0 "${one[@]}" --set run.name=plain
grep -v augment aug.yaml | grep -v randaugment >plain.yaml
try 0 train plain.yaml -q --no-progress --set train.steps=1 --set train.label_smoothing=0 --set run.name=without
[ "$(first_loss plain)" = "$(first_loss without)" ] || bad "augment: none is not the recipe without it"
for change in data.augment.crop=padded data.augment.crop=resized data.augment.flip=0.5 data.augment.randaugment.ops=1 data.augment.jitter.contrast=0.5 \
    data.augment.erase=0.5 data.augment.mixup=1 data.augment.cutmix=1 train.label_smoothing=0.1; do
    try 0 "${one[@]}" --set run.name=one-$change --set $change
    [ "$(first_loss plain)" != "$(first_loss "one-$change")" ] || bad "$change changes nothing"
done

# ---- a ragged last step is padded; the samples of an evaluation are as they are
try 0 "${run[@]}" --set run.name=ragged --set train.drop_last=false --set train.steps_per_epoch=0 --set train.global_batch=1024 --set train.micro_batch=256 --set train.epochs=1
try 0 "${run[@]}" --set run.name=ragged2 --set train.drop_last=false --set train.steps_per_epoch=0 --set train.global_batch=1024 --set train.micro_batch=256 --set train.epochs=1 --workers 2
cmp -s runs/ragged/checkpoints/latest/model.safetensors runs/ragged2/checkpoints/latest/model.safetensors || bad "a ragged step differs on 2 ranks"
loss() { sed -n 's/.*"kind":"eval".*"loss":\([^,]*\),.*/\1/p' "runs/$1/metrics.jsonl" | tail -n 1; }
still=(train aug.yaml -q --no-progress --set optimizer.lr=0 --set train.steps=1 --set train.label_smoothing=0)
try 0 "${still[@]}" --set run.name=still
try 0 "${still[@]}" --set run.name=still-plain --set data.augment=none
[ -n "$(loss still)" ] && [ "$(loss still)" = "$(loss still-plain)" ] || bad "evaluation: loss $(loss still) with augmentation, $(loss still-plain) without"

try 0 eval runs/whole
has out 'accuracy'
try 0 predict runs/whole --count 3

# ---- what the model will see
try 0 data aug.yaml --samples 5 --epoch 1
has out 'shapes, training split: 60000 samples'
has out '^labels.weight +f32'
has out '^arrow +5946'
has out '^ +0 +[0-9]+ +[a-z]+ +shift .*(mixup|cutmix) .* with [a-z]+$'
cp out first
try 0 data aug.yaml --samples 5 --epoch 1
cmp -s out first || bad "$what: it shows something else the second time"
try 0 data aug.yaml --samples 5 --epoch 2
! cmp -s out first || bad "$what: two epochs are the same"
try 0 data aug.yaml --samples 20 --out page.html
[ "$(grep -o 'data:image/png;base64' page.html | wc -l)" = 40 ] || bad "page.html has not 20 images and 20 unchanged ones"
! grep -qE 'https?://|<script' page.html || bad "page.html loads something"
try 0 data aug.yaml --samples 20 --out page.html --split eval
[ "$(grep -o 'data:image/png;base64' page.html | wc -l)" = 20 ] || bad "page.html has not 20 images of the evaluation split"
refused 2 '--split: *test|--split test: eval or train is needed' data aug.yaml --split test
printf 'Once upon a time\n\nthere was a text\n\nof three parts\n' >t.txt
for i in 1 2 3 4 5 6 7 8 9; do cat t.txt; done >text.txt
text=(data llama-shakespeare --set data.train_text=text.txt --set data.eval_text= --set data.eval_fraction=0.2 --set data.tokenizer=bytes --set data.seq_length=16 --set train.global_batch=2 --set train.micro_batch=1)
try 0 "${text[@]}" --samples 3
has out 'ids +i32 \[16\]'
try 0 "${text[@]}" --samples 3 --out page.html
has page.html '<pre class="text">'

finish
