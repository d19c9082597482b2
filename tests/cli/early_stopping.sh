#!/usr/bin/env bash
# early_stopping.sh COMMAND - train.early_stopping ends training at the epoch that the metrics say; the same in parts, after a kill and on two ranks; a finished run
# stays finished until patience grows; settings without an effect are refused.
source "$(dirname "$0")/common.sh"
awk 'BEGIN { srand(1); print "a,y"; for (i = 0; i < 60; i++) { a = rand(); printf "%.6f,%.6f\n", a, a * a + 0.3 * rand() } }' >train.csv
awk 'BEGIN { srand(2); print "a,y"; for (i = 0; i < 20; i++) { a = rand(); printf "%.6f,%.6f\n", a, a * a + 0.3 * rand() } }' >eval.csv
cat >recipe.yaml <<'EOT'
model: {type: mlp, inputs: {x: [1]}, outputs: {y: [1]}, hidden: [32], act: gelu}
data: {type: arrays, train: {x: "train.csv:a", y: "train.csv:y"}, eval: {x: "eval.csv:a", y: "eval.csv:y"}}
loss: {type: mse, of: y}
train: {epochs: 40, global_batch: 20, micro_batch: 5, early_stopping: {patience: 3, min_delta: 0.001}}
optimizer: {type: adam, lr: 1e-2}
threads: 1
EOT
# due NAME PATIENCE MIN_DELTA: the epoch after which the losses of its evaluations end training
due() {
    grep '"kind":"eval"' "runs/$1/metrics.jsonl" | sed -E 's/.*"epoch":([0-9]+),"loss":([0-9.e-]+).*/\1 \2/' |
        awk -v patience="$2" -v delta="$3" 'NR == 1 || best - $2 > delta { best = $2; waited = 0; next } { if (++waited == patience) { print $1; exit } }'
}
ended() { [ "$(tail -n 1 "runs/$1/metrics.csv" | cut -d, -f1)" = "$(due "$1" "$2" "$3")" ] || bad "$what: ended after epoch $(tail -n 1 "runs/$1/metrics.csv"), not $(due "$1" "$2" "$3")"; }

try 0 train recipe.yaml --set run.name=whole
ended whole 3 0.001
epochs=$(($(wc -l <runs/whole/metrics.csv) - 1))
[ $epochs -gt 4 ] && [ $epochs -lt 40 ] || bad "$epochs epochs: this shows nothing"
has err '^early stopping: eval_loss has not improved by more than 0\.001 for 3 epochs; the best value is 0\.[0-9]+; [0-9]+ of 120 steps are done$'
has runs/whole/result.json '"state":"finished".*"early_stopping":\{"value":0\.[0-9]+,"waited":3\}.*"ended":"early stopping: eval_loss has not improved by more than 0\.001 for 3 epochs'
has runs/whole/checkpoints/latest/trainer.json '"stop_waited":3,'
[ "$(readlink runs/whole/checkpoints/latest)" = "step-$(printf %08d $((3 * epochs)))" ] || bad "the last checkpoint is $(readlink runs/whole/checkpoints/latest)"

# ---- started again it does nothing; with more patience it continues as if it had had it from the beginning
try 0 train recipe.yaml --set run.name=whole
# its weights are those of the best checkpoint, and a line says so; checkpoints/latest has the last ones
best=$(readlink runs/whole/checkpoints/best) last=$(readlink runs/whole/checkpoints/latest); step=$((10#${best#step-}))
[ "$best" != "$last" ] || bad "the last checkpoint is the best one: nothing to choose"
said="^early stopping ended runs/whole: this is its best checkpoint, step $step; its last one is runs/whole/checkpoints/latest$"
for form in "eval runs/whole" "eval recipe.yaml --set run.name=whole" "export runs/whole --to e.pt --force" "inspect runs/whole"; do try 0 $form; once err "$said"; has out 'runs/whole/checkpoints/best'; done
try 0 predict runs/whole --out b.csv; once err "$said"
for form in runs/whole/checkpoints/best "runs/whole --best"; do try 0 predict $form --out c.csv; times 0 err '^early'; cmp b.csv c.csv || bad "$what: other weights"; done
try 0 predict runs/whole/checkpoints/latest --out c.csv; if cmp -s b.csv c.csv; then bad "$what: the weights of the best one"; fi
try 0 runs --json; has out "\"name\":\"whole\",.*\"best\":\{\"metric\":\"eval_loss\",\"value\":0\.[0-9]+,\"step\":$step\}"
refused 2 'best chooses among the checkpoints of a run' eval runs/whole/checkpoints/best --best
refused 2 'best chooses among the checkpoints of a run, and e.pt is not a run' inspect e.pt --best
try 0 inspect runs/whole --best; times 0 err '^early'; has out 'runs/whole/checkpoints/best'
refused 2 'best chooses among the checkpoints of a run, and e.pt is not a run' export e.pt --best --to f.pt
try 0 train recipe.yaml --set run.name=whole
has err 'runs/whole is finished after step .* by early stopping: .*nothing to do'
try 0 train recipe.yaml --set run.name=patient --set train.early_stopping.patience=6
ended patient 6 0.001
try 0 train recipe.yaml --set run.name=whole --set train.early_stopping.patience=6
for file in model.safetensors optimizer.safetensors; do cmp "runs/whole/checkpoints/latest/$file" "runs/patient/checkpoints/latest/$file" || bad "$what: another $file"; done
has runs/whole/checkpoints/latest/trainer.json "$(grep -oE '"stop_value":[0-9.]+' runs/patient/checkpoints/latest/trainer.json)"

# ---- in parts, killed, and on two ranks it ends at the same step with the same bits
rm -rf runs/whole; try 0 train recipe.yaml --set run.name=whole
try 0 train recipe.yaml --set run.name=two --workers 2; same two
try 0 train recipe.yaml --set run.name=parts --set train.epochs=$((epochs - 1)); has runs/parts/result.json '"ended":"all [0-9]+ steps are done"'
has runs/parts/checkpoints/latest/trainer.json '"stop_waited":2,'
try 0 train recipe.yaml --set run.name=parts; same parts
LOCKSTEP_FAIL=name@60:kill try 137 train recipe.yaml --set run.name=killed --set checkpoint.every_steps=1
try 0 train recipe.yaml --set run.name=killed --set checkpoint.every_steps=1; same killed
# a run that died between its last checkpoint and its end
cp -r runs/whole runs/died; sed -i "s/\"state\":\"finished\"/\"state\":\"running\"/; s/name: whole/name: died/" runs/died/result.json runs/died/recipe.yaml
try 0 train recipe.yaml --set run.name=died; has err '^early stopping'; same died

# ---- other metrics, and without checkpoints
try 0 train recipe.yaml --set run.name=r2 --set "checkpoint.best={metric: eval_r2}" --set train.early_stopping.min_delta=0; has err 'early stopping: eval_r2 has not improved for 3 epochs'
try 0 train recipe.yaml --set run.name=unsaved --set checkpoint.every_epochs=-1; has err '^early stopping'
try 0 train recipe.yaml --set run.name=unsaved --set checkpoint.every_epochs=-1; has err 'nothing to do'
refused 2 'train.early_stopping.patience: eval_loss is not measured at the ends of epochs' train recipe.yaml --set run.name=x --set eval.every_epochs=0
refused 2 'train.early_stopping.min_delta.*no effect' train recipe.yaml --set run.name=x --set train.early_stopping.patience=0
refused 2 'train.early_stopping.patience' train recipe.yaml --set run.name=x --set train.patience=3
finish
