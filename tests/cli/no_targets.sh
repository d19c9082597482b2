#!/usr/bin/env bash
# no_targets.sh COMMAND - what has no value is said and never taken for a number: a step, an epoch and an evaluation in which no target counts, an AUC of one class;
# early stopping does not wait for it; on two ranks and in parts alike. Settings that are legal and seldom meant are named. Runs of older versions continue.
source "$(dirname "$0")/common.sh"

# rows FILE N MISSING: N rows, the targets of the first MISSING are missing
rows() { awk -v n="$2" -v missing="$3" 'BEGIN { print "a,y"; for (i = 0; i < n; i++) printf "%.3f,%s\n", i / n, i < missing ? "nan" : i * i / n }' >"$1"; }
rows train.csv 12 4
rows none.csv 12 12
rows eval.csv 5 0
cat >recipe.yaml <<'EOT'
model: {type: mlp, inputs: {x: [1]}, outputs: {y: [1]}, hidden: [4], act: gelu, scale: none}
data: {type: arrays, missing: mask, shuffle: false, train: {x: "train.csv:a", y: "train.csv:y"}, eval: {x: "eval.csv:a", y: "eval.csv:y"}}
loss: {type: mse, of: y}
train: {epochs: 2, global_batch: 4, micro_batch: 2}
optimizer: {type: adam, lr: 1e-2}
log: {every: 1, tensorboard: true}
threads: 1
EOT
none=(--set "data.train={x: none.csv:a, y: none.csv:y}") blind=(--set "data.eval={x: none.csv:a, y: none.csv:y}")
# losses NAME KIND: rows of that kind, without times
losses() { grep "\"kind\":\"$2\"" "runs/$1/metrics.jsonl" | sed -E 's/"(seconds|data_seconds|memory[a-z_]*|cpu|load|gflops|mfu|attempt)":[^,}]*,?//g'; }

# ---- a step without a target that counts has no loss, and changes nothing; the epoch's mean is that of the others
try 0 train recipe.yaml --set run.name=whole
times 2 err 'step [14]/6  no loss .* \(skipped: no target counts\)$'
times 2 runs/whole/metrics.jsonl '"kind":"step","step":[14],.*"loss":null,.*"skipped":true'
times 2 runs/whole/metrics.jsonl '"skipped":true'
times 2 runs/whole/metrics.jsonl '"kind":"epoch",.*"train_loss":[0-9.]+,.*"skipped":1[,}]'
times 2 runs/whole/metrics.csv '^[01],[36],12,[0-9.]+,[0-9.]+,'
try 0 runs --metrics runs/whole --steps; times 2 out ' none .*skipped: no target counts'
for epoch in 0 1; do # the mean over targets: here over two steps of as many
    awk -F'"train_loss":' -v want="$(losses whole step | grep "\"epoch\":$epoch" | sed -nE 's/.*"loss":([0-9.]+),.*/\1/p' | awk '{ s += $1 } END { print s / NR }')" \
        -v epoch=$epoch '$0 ~ "\"kind\":\"epoch\",\"epoch\":" epoch { d = $2 / want - 1; ok = d < 1e-4 && d > -1e-4 } END { exit !ok }' runs/whole/metrics.jsonl || bad "epoch $epoch has another mean"
done
try 0 train recipe.yaml --set run.name=two --workers 2; same two; cmp <(losses whole step) <(losses two step) || bad "$what: other losses"
# in parts, of which one ends behind such a step
try 0 train recipe.yaml --set run.name=parts --set train.steps=4
has runs/parts/metrics.jsonl '"kind":"epoch","epoch":1,"step":4,.*"train_loss":null,.*"skipped":1[,}]'
has runs/parts/result.json '"step":4,"epoch":1,"loss":null,"skipped":true,'
has err 'epoch 1  step 4/4  train no loss'
try 0 train recipe.yaml --set run.name=parts --set train.steps=4; has err 'is finished: 4 steps, no loss in the last one; nothing to do'
try 0 train recipe.yaml --set run.name=parts; same parts
cmp <(losses whole epoch | tail -n 1) <(losses parts epoch | tail -n 1) || bad "$what: another epoch: $(losses whole epoch | tail -n 1), $(losses parts epoch | tail -n 1)"

# ---- a whole epoch of them is an error, and so is a run that ends within its first epoch
refused 1 'epoch 0: no target counts in any of its 12 samples' train recipe.yaml --set run.name=none "${none[@]}"
has runs/none/result.json '"state":"failed".*"error":"epoch 0: no target counts'
refused 1 'epoch 0: no target counts in any of its 12 samples' train recipe.yaml --set run.name=none2 --workers 2 "${none[@]}"
refused 1 'epoch 0: no target counts in any of its 4 samples' train recipe.yaml --set run.name=first --set train.steps=1

# ---- an evaluation without a target that counts has no loss, and no epoch is the best
try 0 train recipe.yaml --set run.name=blind "${blind[@]}"
times 2 err 'eval no loss \(no target counts: all are ignored, masked or of weight 0\)  no rmse'
once err '^warning: epoch 0: eval_loss is undefined: no target counts.*no epoch becomes the best \(checkpoint.best.metric\)$'
once err '^warning: no epoch is the best: eval_loss is undefined'
once runs/blind/log/rank-0.log 'epoch 0: eval_loss is undefined'
times 2 runs/blind/metrics.jsonl '"kind":"eval",.*"loss":null,.*"skipped":true'
has runs/blind/result.json '"eval":\{"step":6,"loss":null,.*"skipped":true.*"no_best":"eval_loss is undefined: no target counts'
if grep -q '"best":' runs/blind/result.json || [ -e runs/blind/checkpoints/best ]; then bad "$what: there is a best one"; fi
if grep -qa eval/loss runs/blind/tensorboard/*; then bad "TensorBoard has a loss of nothing"; fi
try 0 eval runs/blind; has out '^no loss \(no target counts.*\)  no rmse \('
try 0 eval runs/blind --json; has out '"loss":null,.*"skipped":true,"targets":0,'
try 0 eval runs/whole --set 'data.eval={x: eval.csv:a, y: eval.csv:y}'; has out '^loss [0-9.]+  rmse [0-9.]+'
# early stopping does not wait for it; with a metric of training there is a best one
try 0 train recipe.yaml --set run.name=stops "${blind[@]}" --set train.epochs=9 --set train.early_stopping.patience=3
once err 'eval_loss is undefined: .* early stopping counts the epochs as ones without improvement$'
has err '^early stopping: eval_loss has been undefined for 3 epochs; 9 of 27 steps are done$'
has runs/stops/result.json '"early_stopping":\{"value":null,"waited":3\}.*"ended":"early stopping: eval_loss has been undefined for 3 epochs"'
try 0 train recipe.yaml --set run.name=stops "${blind[@]}" --set train.epochs=9 --set train.early_stopping.patience=3; has err 'nothing to do'
try 0 train recipe.yaml --set run.name=own "${blind[@]}" --set checkpoint.best.metric=train_loss; has runs/own/result.json '"best":\{"metric":"train_loss","value":[0-9.]+,'

# ---- an AUC of one class
awk 'BEGIN { print "a,c"; for (i = 0; i < 8; i++) printf "%.3f,%d\n", i / 8, i % 2 }' >classes.csv
sed 's/,1$/,0/' classes.csv >zeros.csv
cat >auc.yaml <<'EOT'
model: {type: mlp, inputs: {x: [1]}, outputs: {c: [2]}, hidden: [4], act: gelu}
data: {type: arrays, train: {x: "classes.csv:a", c: "classes.csv:c"}, eval: {x: "zeros.csv:a", c: "zeros.csv:c"}}
loss: {type: cross_entropy, of: c}
train: {epochs: 3, global_batch: 4, micro_batch: 4}
eval: {metrics: [auc]}
checkpoint: {best: {metric: eval_auc}}
threads: 1
EOT
try 0 train auc.yaml --set run.name=auc
once err 'warning: epoch 0: eval_auc is undefined: all targets that count are of one class'
has err 'epoch 2 .*eval loss [0-9.]+  accuracy [0-9.]+%.*  no auc  no auc_bound'
has runs/auc/result.json '"no_best":"eval_auc is undefined: all targets that count are of one class"'
try 0 train auc.yaml --set run.name=auc --set train.epochs=4 --set checkpoint.best.metric=eval_loss --set checkpoint.best.mode=min
has runs/auc/result.json '"best":\{"metric":"eval_loss"'; if grep -q no_best runs/auc/result.json; then bad "$what: no best one"; fi

# ---- more classes than the data have; a learning rate that jumps
idx_data mnist 40 20 8
idx=(--set model.image_size=8 --set data.path=mnist --set train.global_batch=8 --set train.micro_batch=8 --set train.epochs=1 --set threads=1)
printf 'model: {type: mlp, hidden: [4]}\ndata: {type: mnist}\n' >idx.yaml
try 0 train idx.yaml --set run.name=twelve --set model.classes=12 "${idx[@]}"
once err 'warning: .*model.classes: 12, but the labels of the training data end at 9: 2 classes of the model have no sample \(model.classes: 10 fits\)$'
once runs/twelve/log/rank-0.log 'model.classes: 12'
try 0 train idx.yaml --set run.name=ten "${idx[@]}"; if grep -q '^warning: .*classes' err; then bad "$what: warns of its classes"; fi
cosine=(train recipe.yaml --set schedule.type=cosine --set train.epochs=4)
try 0 "${cosine[@]}" --set run.name=cut --set train.steps=2
if grep -q 'learning rate' err; then bad "$what: a jump at the start"; fi
try 0 "${cosine[@]}" --set run.name=cut --set train.steps=6
once err '^warning: the learning rate jumps from 0\.005 in step 2 to 0\.00[0-9]+ in step 3: .*train.steps or train.epochs has changed; schedule.total_steps'
once runs/cut/log/rank-0.log 'the learning rate jumps'
for steps in 2 6; do try 0 "${cosine[@]}" --set run.name=fixed --set schedule.total_steps=12 --set train.steps=$steps; done
if grep -q 'learning rate jumps' err; then bad "$what: there is no jump"; fi

# ---- the run of an older version, with its names of the epoch's loss, continues; the rows are as if it had had ours
try 0 train recipe.yaml --set run.name=old --set checkpoint.best.metric=train_loss
try 0 train recipe.yaml --set run.name=new --set checkpoint.best.metric=train_loss
sed -i 's/train_loss/loss/' runs/old/recipe.yaml runs/old/metrics.csv runs/old/metrics.jsonl runs/old/result.json
has runs/old/metrics.csv '^epoch,step,samples,loss,'; has runs/old/recipe.yaml 'metric: loss'
for name in old new; do try 0 train recipe.yaml --set run.name=$name --set checkpoint.best.metric=train_loss --set train.epochs=4; done
cmp <(cut -d, -f1-7 runs/old/metrics.csv) <(cut -d, -f1-7 runs/new/metrics.csv) || bad "$what: another metrics.csv"
for name in old new; do "$lockstep" runs --metrics runs/$name --csv | cut -d, -f1-7 >$name.csv; done; cmp old.csv new.csv || bad "the old run's epochs are others"
has runs/old/recipe.yaml 'metric: train_loss'; cmp <(grep -o '"best":{[^}]*' runs/old/result.json) <(grep -o '"best":{[^}]*' runs/new/result.json) || bad "another best one"
finish
