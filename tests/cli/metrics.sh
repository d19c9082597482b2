#!/usr/bin/env bash
# metrics.sh COMMAND - the losses and metrics of a model by name: in metrics.jsonl, metrics.csv, the report, TensorBoard, tables, checkpoints; as the best; the same
# bits on other ranks; after a resume; what the model does not have is refused.
source "$(dirname "$0")/common.sh"

table() {
    awk -v n="$2" -v seed="$3" 'BEGIN {
        srand(seed); print "a,b,y,z"
        for (i = 0; i < n; i++) { a = rand(); b = rand(); printf "%.6f,%.6f,%.6f,%.6f\n", a, b, 100 + 20 * a - 5 * b, a * b }
    }' >"$1"
}
table train.csv 80 1
table eval.csv 22 2
cat >recipe.yaml <<'EOT'
model: {type: mlp, inputs: {x: [2]}, outputs: {y: [1], z: [1]}, hidden: [8], act: gelu}
data: {type: arrays, train: {x: "train.csv:a,b", y: "train.csv:y", z: "train.csv:z"}, eval: {x: "eval.csv:a,b", y: "eval.csv:y", z: "eval.csv:z"}}
loss: [{type: mse, of: y}, {type: mae, of: z, factor: 0.5}]
train: {epochs: 6, global_batch: 16, micro_batch: 4, drop_last: false}
optimizer: {type: adam, lr: 1e-2}
checkpoint: {best: {metric: eval_r2_y}}
log: {tensorboard: true}
threads: 1
EOT
names="mse_y l1_z rmse_y mae_y r2_y rmse_z mae_z r2_z"
# evaluations NAME: its rows of evaluations, without times
evaluations() { grep '"kind":"eval"' "runs/$1/metrics.jsonl" | sed -E 's/"(seconds|attempt)":[^,}]*,?//g'; }
# beside NAME: its evaluations are those of the run that nothing disturbed
beside() { cmp <(evaluations whole) <(evaluations "$1") || bad "$what: other evaluations"; }

# ---- every file has every name; a higher R2 is better, which nobody said
try 0 train recipe.yaml --set run.name=whole
has err 'epoch 5 .*eval loss [0-9.]+  mse_y [0-9.]+  l1_z .*r2_y 0\.[0-9]+ .*best so far'
has err 'best   eval_r2_y 0\.[0-9]+ in epoch 5'
has runs/whole/recipe.yaml 'mode: max'
has out 'eval loss +mse_y +l1_z +rmse_y +mae_y +r2_y'
[ "$(head -n 1 runs/whole/metrics.csv)" = "epoch,step,samples,train_loss,eval_loss,eval_accuracy,lr,seconds,attempt,memory,cpu,load,gflops$(printf ',eval_%s' $names)" ] || bad "metrics.csv begins with $(head -n 1 runs/whole/metrics.csv)"
times 6 runs/whole/metrics.csv '^[0-5],[0-9]+,80,[0-9.]+,[0-9.]+,,0\.01,[0-9.e-]+,0,[0-9]+(,[0-9.e-]+){3}(,-?[0-9.]+){8}$'
times 6 runs/whole/metrics.jsonl '"kind":"epoch".*"memory":[0-9]+,.*"cpu":[0-9.e-]+,"load":[0-9.]+,"gflops":[0-9.e-]+,"attempt":0\}$'
for name in memory cpu load gflops; do grep -qa "system/$name" runs/whole/tensorboard/* || bad "TensorBoard has no system/$name"; done
times 0 runs/whole/metrics.jsonl '"kind":"memory"'
for name in $names; do
    times 6 runs/whole/metrics.jsonl "\"kind\":\"eval\".*\"$name\":-?[0-9.]+[,}]"
    times 6 runs/whole/metrics.jsonl "\"kind\":\"epoch\".*\"eval_$name\":-?[0-9.]+[,}]"
    has runs/whole/result.json "\"eval\":\{\"step\":30,.*\"$name\":"
    has runs/whole/checkpoints/latest/trainer.json "\"eval_accuracy\":null,\"best_value\":0\.[0-9]+,\"eval_mse_y\":.*\"eval_$name\":"
    has runs/whole/report.html "<h2>$name</h2>"; has runs/whole/report.html "<th>$name</th>"; has runs/whole/report.html "<span>evaluation $name</span>"
    grep -qa "eval/$name" runs/whole/tensorboard/* || bad "TensorBoard has no eval/$name"
done
if grep -q ccuracy runs/whole/report.html; then bad "the report has an accuracy"; fi
once runs/whole/result.json '"best":\{"metric":"eval_r2_y","value":0\.[0-9]+,"step":30,'
try 0 runs --metrics runs/whole --csv
cut -d, -f1-6,9- out | cmp - <(cut -d, -f1-6,9- runs/whole/metrics.csv) || bad "$what: is not metrics.csv"
try 0 runs --json; has out '"eval_accuracy":null,"eval_mse_y":[0-9.]+,'
# without classes nothing is correct, and without classes of a text nothing has a perplexity
plain() { if grep -qE 'perplexity|correct|[0-9] of [0-9]' out; then bad "$what: it speaks of classes: $(cat out)"; fi; }
try 0 eval runs/whole; has out 'loss [0-9.]+  mse_y [0-9.]+  l1_z [0-9.]+  rmse_y'; plain
try 0 eval runs/whole --json; plain
for name in $names; do has out "$(evaluations whole | tail -n 1 | grep -oE "\"$name\":[^,]*")"; done

# ---- the same bits on two ranks; a run in parts keeps its best value and its columns, on other ranks too
try 0 train recipe.yaml --set run.name=two --workers 2; same two; beside two
for rank in 0 1; do times 6 runs/two/metrics.jsonl "\"kind\":\"memory\",\"epoch\":[0-5],\"step\":[0-9]+,\"rank\":$rank,\"memory\":[0-9]+,\"planned\":[0-9]+,"; done
try 0 train recipe.yaml --set run.name=parts --set train.epochs=2 --set checkpoint.best.metric=eval_mae_z
value=$(grep -oE '"best":\{[^}]*' runs/parts/result.json)
[ -n "$value" ] || bad "no best value"
try 0 train recipe.yaml --set run.name=parts --set train.epochs=3 --set checkpoint.best.metric=eval_mae_z --set optimizer.lr=1e3 --allow-change --workers 2
[ "$(grep -oE '"best":\{[^}]*' runs/parts/result.json)" = "$value" ] || bad "the best one after a resume is $(grep -oE '"best":\{[^}]*' runs/parts/result.json), and was $value"
has runs/parts/recipe.yaml 'mode: min'
[ "$(readlink runs/parts/checkpoints/best)" = step-00000010 ] || bad "best is $(readlink runs/parts/checkpoints/best)"
times 4 runs/parts/metrics.csv '(,[^,]+){8}$'
try 0 train recipe.yaml --set run.name=resumed --set train.epochs=3; try 0 train recipe.yaml --set run.name=resumed; same resumed; beside resumed
try 0 train recipe.yaml --set run.name=several --set checkpoint.keep_best=2 --set checkpoint.keep=1 --set checkpoint.every_epochs=0 --set "checkpoint.best={metric: eval_l1_z}"
[ "$(ls -d runs/several/checkpoints/step-* | wc -l)" = 2 ] || bad "$what: $(ls runs/several/checkpoints)"

# ---- every second epoch is evaluated, and the last
try 0 train recipe.yaml --set run.name=second --set train.epochs=5 --set eval.every_epochs=2
[ "$(sed -nE 's/.*"kind":"eval".*"epoch":([0-9]+),.*/\1/p' runs/second/metrics.jsonl | tr '\n' ' ')" = "1 3 4 " ] || bad "$what: evaluated other epochs: $(grep '"kind":"eval"' runs/second/metrics.jsonl)"

# ---- a checkpoint after every second epoch, and after the last
try 0 train recipe.yaml --set run.name=saved --set train.epochs=5 --set eval.every_epochs=0 --set checkpoint.every_epochs=2 --set checkpoint.keep=9
[ "$(cd runs/saved/checkpoints && echo step-*)" = "step-00000010 step-00000020 step-00000025" ] || bad "$what: $(ls runs/saved/checkpoints)"

# ---- one loss is "loss" alone, so mae names the metric
sed 's/, z: \[1\]}, hidden/}, hidden/; s/^loss:.*/loss: {type: mae, of: y}/' recipe.yaml >one.yaml
try 0 train one.yaml --set run.name=one --set train.steps=1 --set checkpoint.best.metric=eval_mae
has runs/one/metrics.jsonl '"kind":"eval",.*"loss":[0-9.]+,"rmse":[0-9.]+,"mae":[0-9.]+,"r2":-?[0-9.]+,"samples":22,'

# an output that is called as the targets of a text is none
sed -E 's/\{y: \[1\]\}/{targets: [2]}/; s/y: "([a-z.]*):y", z: "[a-z.]*:z"/targets: "\1:y,z"/g; s/of: y/of: targets/' one.yaml >targets.yaml
try 0 train targets.yaml --set run.name=targets --set train.steps=1 --set checkpoint.best.metric=eval_loss
try 0 eval runs/targets; plain

refused 2 'loss: no loss is of output z, so it would not be trained: add one, such as \{type: mse, of: z\}' plan recipe.yaml --set "loss={type: mae, of: y}"

# ---- what the model does not have, and what goes the other way
refused 2 'metric: the model has no metric eval_accuracy; there are train_loss, eval_loss, eval_mse_y, .*eval_r2_z$' \
    train recipe.yaml --set run.name=x --set "checkpoint.best.metric=eval_accuracy"
refused 2 'no metric eval_r2_x; .*is it eval_r2_.\?$' train recipe.yaml --set run.name=x --set checkpoint.best.metric=eval_r2_x
refused 2 'eval_rmse_y is better when it is smaller: set checkpoint.best.mode: min' \
    train recipe.yaml --set run.name=x --set "checkpoint.best={metric: eval_rmse_y, mode: max}"
refused 2 'metric: rmse_y: write train_loss .* or eval_NAME of a metric' train recipe.yaml --set run.name=x --set checkpoint.best.metric=rmse_y
[ ! -e runs/x ] || bad "a refused run has a folder"

# ---- eval.metrics: more of them beside each accuracy, for classes, scores and text; they can be the best
awk 'NR == 1 { print "a,b,two,three,score"; next } { split($0, c, ","); print c[1] "," c[2] "," (c[1] > c[2]) "," (c[1] > 0.5) + (c[2] > 0.5) "," (c[1] + c[2] > 1) }' FS=, train.csv >kinds.csv
cat >kinds.yaml <<'EOT'
model: {type: mlp, inputs: {x: [2]}, outputs: {two: [2], score: [1]}, hidden: [8], act: gelu}
data: {type: arrays, train: {x: "kinds.csv:a,b", two: "kinds.csv:two", score: "kinds.csv:score"}, eval: {x: "kinds.csv:a,b", two: "kinds.csv:two", score: "kinds.csv:score"}}
loss: [{type: cross_entropy, of: two}, {type: bce, of: score}]
train: {epochs: 4, global_batch: 16, micro_batch: 4}
eval: {metrics: [f1, auc]}
checkpoint: {best: {metric: eval_auc_two}}
threads: 1
EOT
try 0 train kinds.yaml --set run.name=kinds; has err 'best   eval_auc_two 0\.[0-9]+'; has runs/kinds/recipe.yaml 'mode: max'
for name in accuracy_two f1_two auc_two auc_two_bound accuracy_score f1_score auc_score; do
    times 4 runs/kinds/metrics.jsonl "\"kind\":\"eval\".*\"$name\":[0-9.e-]+[,}]"; has runs/kinds/metrics.csv "eval_$name"
done
try 0 train kinds.yaml --set run.name=kinds2 --workers 2; cmp <(evaluations kinds) <(evaluations kinds2) || bad "$what: other metrics"
# the confusion matrix of each accuracy: its F1 is that of eval.metrics, and the run's file has the counts of `eval`
try 0 eval runs/kinds --json --set eval.metrics=f1; sed -E 's/.*("confusion":)/\1/; s/}$//' out >of_eval
sed -E 's/.*("confusion":)/\1/; s/}$//' runs/kinds/confusion.json | cmp - of_eval || bad "$what: other matrices than those of the run: $(cat of_eval)"
has out '"f1_two":([0-9.]+),.*"accuracy_two":\{.*"macro":\{"precision":[0-9.]+,"recall":[0-9.]+,"f1":\1\}'
has out '"f1_score":([0-9.]+),.*"accuracy_score":\{"named":false,"classes":\[\{[^}]*\},\{"class":"1","precision":[0-9.]+,"recall":[0-9.]+,"f1":\1,'
try 0 eval runs/kinds; has out '^accuracy_two$'; has out '^true . predicted +0 +1$'; times 2 out '^macro +80 +80 '
cmp runs/kinds/confusion.json runs/kinds2/confusion.json || bad "two ranks count other pairs"
has runs/kinds/report.html '<h2>Classes: accuracy_score</h2>'
try 0 eval runs/kinds --set eval.metrics=f1; has out 'f1_two 0\.'; if grep -q auc out; then bad "$what: an auc that nobody asked for"; fi
refused 2 'eval.metrics: recall: it can be f1, auc or perplexity' plan kinds.yaml --set eval.metrics=recall
refused 2 'metric "perplexity_score"' plan kinds.yaml --set eval.metrics=perplexity
refused 2 'metric "auc_two": it compares two classes, the logits have 3' plan kinds.yaml --set 'model.outputs={two: [3], score: [1]}'
refused 2 'eval.metrics: f1 is of classes, and the model measures no accuracy' plan recipe.yaml --set eval.metrics=f1
printf 'the cat sat on the mat and saw %d birds.\n' $(seq 400) >text.txt
try 0 train llama-shakespeare -q --set run.name=text --set data.train_text=text.txt --set data.documents=line --set data.seq_length=16 --set model.layers=1 --set model.hidden_size=32 --set model.mlp_size=64 --set model.heads=2 --set train.steps=4 --set train.global_batch=4 --set train.micro_batch=2 --set eval.metrics=perplexity --set checkpoint.best.metric=eval_perplexity
grep '"kind":"eval"' runs/text/metrics.jsonl | sed -E 's/.*"loss":([0-9.e+-]+).*"perplexity":([0-9.e+-]+).*/\1 \2/' | awk '{ d = exp($1) / $2 - 1; exit !(d < 1e-5 && d > -1e-5) }' || bad "perplexity is not e^loss: $(grep '"kind":"eval"' runs/text/metrics.jsonl)"
for form in "" --json; do
    try 0 eval runs/text $form
    [ "$(grep -o perplexity out | wc -l)" = 1 ] || bad "$what: one perplexity is enough: $(cat out)"
done
# ---- an edited file can have any name, and the table for programs stays one
cp -a runs/kinds runs/edited && sed -i 's/"eval_f1_two"/"eval_f1,\\"two\\""/' runs/edited/metrics.jsonl
try 0 runs --metrics runs/edited --csv; has out ',"eval_f1,""two""",'
finish
