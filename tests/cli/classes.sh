#!/usr/bin/env bash
# classes.sh COMMAND - weights of classes and drawn samples: the bits of the same weights as a field, of any number of ranks, and of a run that is continued within an
# epoch; the plateau of the rate continues, too; `lockstep data` says when they might help.
source "$(dirname "$0")/common.sh"
make() { awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); print "a,b,kind,w"; split("0.5 2 3", w, " "); for (i = 0; i < n; i++) { k = i % 20 ? 0 : i % 40 ? 1 : 2; printf "%.4f,%.4f,%d,%s\n", rand() + k, rand() - k, k, w[k + 1] } }'; }
make 240 1 >train.csv
make 80 2 >eval.csv
cat >recipe.yaml <<'EOT'
model: {type: mlp, inputs: {x: [2]}, outputs: {kind: [3]}, hidden: [8]}
loss: {type: cross_entropy, of: kind}
data:
  type: arrays
  train: {x: "train.csv:a,b", kind: train.csv, w: train.csv}
  eval: {x: "eval.csv:a,b", kind: eval.csv, w: eval.csv}
train: {epochs: 3, global_batch: 16, micro_batch: 4}
optimizer: {lr: 0.01}
checkpoint: {every_steps: 4, keep: 20}
threads: 1
EOT
same() { cmp "runs/$1/checkpoints/latest/model.safetensors" "runs/$2/checkpoints/latest/model.safetensors" || bad "$what: other weights"; }

# ---- weights of classes: those of a field with the same numbers
try 0 train recipe.yaml --set run.name=field --set 'loss={type: cross_entropy, of: kind, weight: w}'
try 0 train recipe.yaml --set run.name=list --set 'loss.class_weights=[0.5, 2, 3]'
same list field
[ "$(grep -o '"eval_loss":[0-9.]*' runs/list/checkpoints/latest/trainer.json)" = "$(grep -o '"eval_loss":[0-9.]*' runs/field/checkpoints/latest/trainer.json)" ] || bad "$what: another eval_loss"
has err 'eval loss [0-9.]+  cross_entropy_unweighted [0-9.]+  accuracy [0-9.]+% \([0-9]+ of 80\)'
# balanced: 240 / (3 * 228), 240 / (3 * 6), 240 / (3 * 6)
try 0 train recipe.yaml --set run.name=numbers --set 'loss.class_weights=[0.35087719298245612, 13.333333333333334, 13.333333333333334]'
try 0 train recipe.yaml --set run.name=balanced --set loss.class_weights=balanced
same balanced numbers
# an evaluation counts the training split, too
try 0 eval runs/balanced
has out "loss $(grep '"kind":"eval"' runs/balanced/metrics.jsonl | tail -n 1 | sed -E 's/.*"loss":([0-9]\.[0-9]{3}).*/\1/')"
has out 'cross_entropy_unweighted [0-9.]+'

# ---- with drawn samples: on two ranks, and in parts
drawn=(--set loss.class_weights=balanced --set data.sampler=weights:w --set 'schedule={type: plateau, patience: 0, threshold: 0.5}')
try 0 train recipe.yaml --set run.name=drawn "${drawn[@]}"
cmp -s runs/drawn/checkpoints/latest/model.safetensors runs/balanced/checkpoints/latest/model.safetensors && bad "data.sampler changed nothing"
has err 'has not improved for 1 evaluations: the learning rate is now 0\.00'
has runs/drawn/checkpoints/latest/trainer.json '"plateau_cuts":[12],'
try 0 train recipe.yaml --set run.name=ranks "${drawn[@]}" --workers 2
same ranks drawn
die() { # as if run $1 had died behind step 20, within epoch 1: run $2
    cp -r "runs/$1" "runs/$2"
    sed -i "s/\"state\":\"finished\"/\"state\":\"running\"/; s/name: $1/name: $2/" "runs/$2/result.json" "runs/$2/recipe.yaml"
    for dir in "runs/$2"/checkpoints/step-*; do [ "${dir##*-}" -le 20 ] || rm -r "$dir"; done
    ln -sfn step-00000020 "runs/$2/checkpoints/latest"
}
die drawn parts
try 0 train recipe.yaml --set run.name=parts "${drawn[@]}"
has err 'step 20'
same parts drawn
diff <(grep -o '"plateau_[a-z]*":[^,]*' runs/parts/checkpoints/latest/trainer.json) <(grep -o '"plateau_[a-z]*":[^,]*' runs/drawn/checkpoints/latest/trainer.json) || bad "$what: another plateau"

# ---- the plateau counts evaluations within epochs, too; a run in parts has the same counters
often=(--set 'schedule={type: plateau, patience: 0, threshold: 0.5}' --set eval.every_epochs=0 --set eval.every_steps=3)
try 0 train recipe.yaml --set run.name=often "${often[@]}"
has err '^epoch 0: eval_loss has not improved for 1 evaluations: the learning rate is now 0\.00'
die often cut
try 0 train recipe.yaml --set run.name=cut "${often[@]}"; has err 'step 20'
same cut often
refused 2 'schedule.type: plateau follows checkpoint.best.metric, eval_loss, which is not measured while the model trains, because eval.every_epochs is 0: set it to 1, eval.every_steps, or' train recipe.yaml --set run.name=none "${often[@]:0:4}"
try 0 train recipe.yaml --set run.name=loss --set 'schedule={type: plateau, patience: 0, threshold: 0.5}' --set eval.every_epochs=-1 --set checkpoint.best.metric=train_loss
has err '^epoch [0-9]+: train_loss has not improved'

# ---- evaluations have a batch of their own: the same numbers, on two ranks, in f64, and in a run that goes on with another batch
judged() { diff <(sed -nE '/"kind":"eval"/s/"(seconds|attempt)":[^,}]*//gp' "runs/$1/metrics.jsonl") <(sed -nE '/"kind":"eval"/s/"(seconds|attempt)":[^,}]*//gp' "runs/$2/metrics.jsonl") || bad "$what: other evaluations"; }
try 0 train recipe.yaml --set run.name=seven "${often[@]}" --set eval.batch=7; judged seven often; same seven often
try 0 train recipe.yaml --set run.name=pair "${often[@]}" --set eval.batch=30 --workers 2; judged pair often; same pair often
die often more; try 0 train recipe.yaml --set run.name=more "${often[@]}" --set eval.batch=80; same more often
wide=(--set device=ref --set precision.param=f64 --set train.steps=3)
try 0 train recipe.yaml --set run.name=wide "${wide[@]}"; try 0 train recipe.yaml --set run.name=wider "${wide[@]}" --set eval.batch=200; judged wider wide; same wider wide
try 0 eval runs/often --json; cp out first; try 0 eval runs/often --json --set eval.batch=33; cmp <(sed 's/"seconds":[^,}]*//' first) <(sed 's/"seconds":[^,}]*//' out) || bad "$what: other numbers"
try 0 predict runs/often --out a.csv; try 0 predict runs/often --out b.csv --set eval.batch=33; cmp a.csv b.csv || bad "$what: other predictions"
try 0 plan recipe.yaml --json; cp out first; try 0 plan recipe.yaml --json --set eval.batch=4000; total() { grep -o '"total":[0-9]*' "$1" | head -n 1 | grep -o '[0-9]*'; }
[ "$(total out)" -gt "$(($(total first) + 4000 * 2 * 4))" ] || bad "$what: the plan counts no memory for it"
refused 2 'eval.batch: -1 is out of range' train recipe.yaml --set run.name=none --set eval.batch=-1

# ---- what says that they might help
try 0 data recipe.yaml
has out '^The largest class has 38 times as many samples as the smallest: .loss.class_weights: balanced. or .data.sampler: balanced. might help'
try 0 data recipe.yaml --set data.sampler=balanced
! grep -q "might help" out || bad "$what: it says so"
try 2 train recipe.yaml --set 'loss.class_weights=[1, 2]'
has err 'loss: class_weights: 2 numbers for 3 classes'
try 2 train recipe.yaml --set data.sampler=weights:z
has err "data.sampler: data.train has no field 'z'"
sed '5s/[^,]*$/-1/' train.csv >wrong.csv # a weight is named by its row of the file, also where rows are held out
refused 1 'data.sampler: field w, row 3: -1; weights are numbers from 0 on' train recipe.yaml --set data.sampler=weights:w --set data.train.w=wrong.csv --set data.eval={} --set data.eval_fraction=0.2 --set run.name=none

# ---- label smoothing of a table: (1 - s) (lse - z[label]) + s (lse - mean of z), from the logits
try 0 train recipe.yaml --set run.name=smooth --set train.label_smoothing=0.3
try 0 predict runs/smooth --output kind --out logits.csv
paste -d, logits.csv <(cut -d, -f3 eval.csv) | awk -F, -v s=0.3 'NR > 1 { n = NF - 4; sum = mean = 0; for (k = 0; k < 3; k++) { z = $(n + 1 + k); sum += exp(z); mean += z / 3; if (k == $NF) own = z }
    loss += log(sum) - (1 - s) * own - s * mean; rows++ } END { printf "loss %.4f\n", loss / rows }' >want
try 0 eval runs/smooth
has out "$(cat want)"
try 0 train recipe.yaml --set run.name=smooth2 --set train.label_smoothing=0.3 --workers 2
same smooth2 smooth
# and with weights of classes: each class has its weight, and the divisor is the sum of those of the targets
both=(--set train.label_smoothing=0.3 --set 'loss.class_weights=[0.5, 0, 3]')
try 0 train recipe.yaml --set run.name=both "${both[@]}"
try 0 predict runs/both --output kind --out logits.csv
paste -d, logits.csv <(cut -d, -f3 eval.csv) | awk -F, -v s=0.3 'BEGIN { split("0.5 0 3", w, " ") } NR > 1 { n = NF - 4; sum = 0; for (k = 0; k < 3; k++) { z[k] = $(n + 1 + k); sum += exp(z[k]) }
    for (k = 0; k < 3; k++) loss += w[k + 1] * (log(sum) - z[k]) * ((k == $NF ? 1 - s : 0) + s / 3)
    weights += w[$NF + 1] } END { printf "loss %s\n", substr(sprintf("%.6f", loss / weights), 1, 6) }' >want
try 0 eval runs/both
has out "$(cat want)"
try 0 train recipe.yaml --set run.name=both2 "${both[@]}" --workers 2
same both2 both
refused 2 'train.label_smoothing: no effect: no loss is of type cross_entropy' train mlp-regression --set train.label_smoothing=0.1

# ---- dropout of an mlp: of training alone; any number of ranks has the same bits
try 0 train recipe.yaml --set run.name=still --set optimizer.lr=0
try 0 train recipe.yaml --set run.name=still-dropped --set optimizer.lr=0 --set model.dropout=0.4
same still-dropped still
metric() { grep -o "\"$2\":[0-9.]*" "runs/$1/metrics.jsonl" | tail -n 1; }
[ "$(metric still eval_loss)" = "$(metric still-dropped eval_loss)" ] || bad "dropout changed an evaluation"
[ "$(metric still train_loss)" != "$(metric still-dropped train_loss)" ] || bad "model.dropout changed nothing"
try 0 train recipe.yaml --set run.name=dropped --set model.dropout=0.4
try 0 train recipe.yaml --set run.name=dropped2 --set model.dropout=0.4 --workers 2
same dropped2 dropped

# ---- labels of pictures
grey() { printf 'P5\n8 8\n255\n'; head -c 64 /dev/zero | tr '\0' "\\$1"; }
for split in train val; do
    mkdir -p pics/$split/few pics/$split/many
    for i in 1 2 3 4 5 6 7; do
        grey 2$i"0" >pics/$split/many/$i.pgm
        [ $i -gt 2 ] || grey 0$i"0" >pics/$split/few/$i.pgm
    done
done
cat >pictures.yaml <<'EOT'
model: {type: mlp, image_size: 8, hidden: [8], classes: 2}
data: {type: images, path: pics}
train: {global_batch: 8, micro_batch: 2, epochs: 3}
loss: {type: cross_entropy, class_weights: balanced}
optimizer: {lr: 0.01}
threads: 1
EOT
try 0 train pictures.yaml --set run.name=one --set data.sampler=balanced --set data.augment.flip=0.5
has err 'loss_unweighted [0-9.]+'
try 0 train pictures.yaml --set run.name=two --set data.sampler=balanced --set data.augment.flip=0.5 --workers 2
same two one
try 0 train pictures.yaml --set run.name=two-numbers --set 'loss.class_weights=[2.25, 0.64285714285714290]'
try 0 train pictures.yaml --set run.name=counted
same two-numbers counted
# with label smoothing, on two ranks, and an evaluation of it
try 0 train pictures.yaml --set run.name=psmooth --set train.label_smoothing=0.1
cmp -s runs/psmooth/checkpoints/latest/model.safetensors runs/counted/checkpoints/latest/model.safetensors && bad "label smoothing changed nothing"
try 0 train pictures.yaml --set run.name=psmooth2 --set train.label_smoothing=0.1 --workers 2
same psmooth2 psmooth
try 0 eval runs/psmooth; has out 'loss_unweighted'
try 0 train pictures.yaml --set run.name=pictures-dropped --set model.dropout=0.5 --set loss.class_weights=none
refused 2 'mixup and cutmix mix two classes' train pictures.yaml --set run.name=x --set data.augment.mixup=0.2
refused 2 'this key is for' train llama-shakespeare --set run.name=x --set data.sampler=balanced
# the key has moved; what a loss of a classifier takes; numbers that are none
refused 2 'train.class_weights: unknown key; did you mean loss: .class_weights: balanced.' train recipe.yaml --set train.class_weights=balanced
refused 2 'loss: the cross_entropy of a classifier of pictures is of its classes: it takes .class_weights. and nothing else' train pictures.yaml --set loss.weight=w
refused 2 'loss: class_weights: none, balanced, or a list with a number from 0 on for each class is needed here, not .-1.' train recipe.yaml --set 'loss.class_weights=[1, 2, -1]'
refused 2 'loss: class_weights: no number is above 0' train recipe.yaml --set 'loss.class_weights=[0, 0, 0]'
refused 2 'loss: class_weights are of cross_entropy; mse has none' train recipe.yaml --set 'loss={type: mse, of: kind, class_weights: balanced}'
refused 2 'loss: class_weights: the loss has a .weight. of samples, too' train recipe.yaml --set loss.weight=w --set loss.class_weights=balanced
refused 2 'two losses have class_weights for the field kind' train recipe.yaml --set 'loss=[{type: cross_entropy, of: kind, class_weights: balanced}, {type: cross_entropy, of: other, target: kind, class_weights: [1, 2, 3]}]' --set 'model.outputs={kind: [3], other: [3]}'
try 0 recipe pictures.yaml --set 'loss.class_weights=[.5, 2]'; has out 'loss: .type: cross_entropy, class_weights: .0.5, 2..'
finish
