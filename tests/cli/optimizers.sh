#!/bin/bash
# optimizers.sh COMMAND - groups of parameters, Lion, averaged weights: stopped runs go on with the same bytes, on other ranks too, also through a directory of
# PyTorch's; evaluations and exports of the average. Then weights to begin with: other names, a new head, what is passed over.
source "$(dirname "$0")/common.sh"

cat >recipe.yaml <<'EOT'
model: {type: mlp, hidden: [9]}
data: {type: shapes}
train: {epochs: 9, steps: 12, global_batch: 12000, micro_batch: 3000}
optimizer:
  type: adamw
  lr: 1e-2
  weight_decay: 0.1
  groups: [{match: "pattern:*bias", weight_decay: 0}, {match: "pattern:head.*", lr_factor: 0.5, weight_decay: 0.3}]
eval: {every_epochs: -1}
threads: 1
EOT

# ---- groups: other bytes than without them, the same on two ranks, stopped or not, and through PyTorch's directory
try 0 train recipe.yaml --set run.name=whole
try 0 train recipe.yaml --set run.name=plain --set "optimizer.groups=[]"
cmp -s runs/whole/checkpoints/latest/model.safetensors runs/plain/checkpoints/latest/model.safetensors && bad "$what: groups change nothing"
try 0 train recipe.yaml --set run.name=ranks --workers 2; same ranks
try 0 train recipe.yaml --set run.name=ddp --workers 2 --set parallel.data=ddp; same ddp
try 0 train recipe.yaml --set run.name=part --set train.steps=7
try 0 export runs/part --to saved --format dcp --optimizer
try 0 train recipe.yaml --resume saved --set run.name=goes-on; same goes-on
refused 2 "saved was made with other settings: optimizer.weight_decay: 0.2 here \(group 2\), 0.3 there \(param_groups.2" train recipe.yaml --resume saved --set run.name=x \
    --set "optimizer.groups=[{match: \"pattern:*bias\", weight_decay: 0}, {match: \"pattern:head.*\", lr_factor: 0.5, weight_decay: 0.2}]"
refused 2 "group 1: pattern:\*gamma names no parameter" train recipe.yaml --set run.name=x --set "optimizer.groups=[{match: \"pattern:*gamma\"}]"
refused 2 "optimizer.groups: no key 'lr' here, only match, lr_factor, weight_decay" train recipe.yaml --set run.name=x --set "optimizer.groups=[{match: a, lr: 1}]"
refused 2 "optimizer.groups: match is missing" train recipe.yaml --set run.name=x --set "optimizer.groups=[{lr_factor: 1}]"

# ---- Lion and the average: killed and started again on other ranks
sed 's/type: adamw/type: lion/; s/lr: 1e-2/lr: 1e-3/; s/every_epochs: -1/every_epochs: 1, ema: true/; s/^  weight_decay.*/  ema_decay: 0.75/' recipe.yaml >lion.yaml
rm -r runs/whole runs/ranks
try 0 train lion.yaml --set run.name=whole --set checkpoint.export=ema.safetensors
try 0 train lion.yaml --set run.name=ranks --workers 2; same ranks
LOCKSTEP_FAIL=name@40:kill try 137 train lion.yaml --set run.name=killed --set checkpoint.every_steps=1
[ -e runs/killed/checkpoints/latest ] || bad "$what: was killed before its first checkpoint"
has runs/killed/result.json '"state":"(running|saving)"'
try 0 train lion.yaml --set run.name=killed --set checkpoint.every_steps=1 --workers 2; same killed
try 0 inspect runs/whole/checkpoints/latest/optimizer.safetensors; has out "ema"
# the average: evaluated, exported, and another one than the weights
try 0 export runs/whole --to average.safetensors --ema
cmp average.safetensors runs/whole/ema.safetensors || bad "$what: checkpoint.export wrote something else"
try 0 export runs/whole --to weights.safetensors
cmp -s average.safetensors weights.safetensors && bad "$what: the average is the weights"
loss() { "$lockstep" eval runs/whole --json "$@" 2>/dev/null | grep -o '"loss": *[0-9.e-]*'; }
[ "$(loss)" = "$(loss --set eval.ema=true)" ] || bad "eval of a run with eval.ema: $(loss), with it said again $(loss --set eval.ema=true)"
[ "$(loss)" != "$(loss --set eval.ema=false)" ] || bad "eval without the average: $(loss) as with it"
grep -o '"eval_loss": *[0-9.e-]*' runs/whole/result.json >measured
grep -q "$(loss | grep -o '[0-9][0-9.]\{6\}' | head -c 7)" measured || bad "eval of the average is $(loss), and the run measured $(cat measured)"
refused 2 "has no moving averages of the weights: it was trained without optimizer.ema_decay" export runs/plain --to x.safetensors --ema
refused 2 "--ema and --optimizer: give one of them: PyTorch's optimizers keep no averages" export runs/whole --to x --format dcp --ema --optimizer
refused 2 "PyTorch directories contain no moving averages" train lion.yaml --resume saved --set run.name=x
refused 2 "eval.ema: has no effect with optimizer.ema_decay 0" train recipe.yaml --set run.name=x --set eval.ema=true

# ---- Muon and Adafactor look at whole matrices: the same bytes where ranks have slices of them; PyTorch has no form of their state
for kind in muon adafactor; do
    rm -rf runs/whole runs/ranks
    sed "s/type: adamw/type: $kind/; s/^  groups.*//; /lr: 1e-2/d" recipe.yaml >whole.yaml
    try 0 train whole.yaml --set run.name=whole
    try 0 train whole.yaml --set run.name=ranks --workers 2; same ranks
    refused 1 "the state of $kind cannot be written for PyTorch" export runs/whole --to none --format dcp --optimizer
    refused 1 "optimizer $kind cannot continue from a PyTorch directory" train whole.yaml --set run.name=none --resume saved
done

# ---- weights to begin with, under other names and with a new head
sed 's/^  groups.*//' recipe.yaml >start.yaml
try 0 train start.yaml --set run.name=base --set train.steps=2
try 0 export runs/base --to base.safetensors
begin=(train start.yaml --set train.steps=1 --set model.init=base.safetensors)
refused 1 "1 missing: |does not fit the model" "${begin[@]}" --set run.name=x --set "model.hidden=[9, 7]"
# what does not fit names the keys that make it fit: another head, a prefix of every name; nothing where it is another model
{ echo a,b,kind; for i in 1 2 3 4 5 6; do echo "$i,$((i * 3 % 7)),$((i % 3))"; done; } >points.csv
cat >points.yaml <<'END'
model: {type: mlp, inputs: {x: [2]}, outputs: {y: [3]}, hidden: [4, 4]}
data: {type: arrays, train: {x: "points.csv:a,b", y: "points.csv:kind"}, eval: {x: "points.csv:a,b", y: "points.csv:kind"}}
loss: {type: cross_entropy, of: y}
train: {global_batch: 2, steps: 1}
END
try 0 train points.yaml
other=(train points.yaml --set run.name=x --set model.init=runs/points/checkpoints/latest)
head=(--set "model.outputs={y: [4]}")
prefix=(--set "model.rename=[{from: \"*\", to: \"module.*\"}]")
refused 1 'this very configuration, or set model.reset: head.y \(docs' "${other[@]}" "${head[@]}"
refused 1 'or set model.rename: \[\{from: "module.\*", to: "\*"\}\] \(docs' "${other[@]}" "${prefix[@]}"
refused 1 'to: "\*"\}\] and model.reset: head.y \(docs' "${other[@]}" "${head[@]}" "${prefix[@]}"
refused 1 'or set model.reset: head.y and model.init_strict: false \(docs' "${other[@]}" --set "model.rename=[{from: \"head.*\", to: \"fc.*\"}]"
refused 1 'this very configuration$' "${other[@]}" --set "model.hidden=[9, 8, 7]"
try 0 "${other[@]}" "${head[@]}" --set model.reset=head.y --set run.name=new_head
try 0 "${begin[@]}" --set run.name=reset --set model.reset=head --set model.classes=10
try 0 "${begin[@]}" --set run.name=again --set model.reset=head --set train.steps=1
cmp runs/reset/checkpoints/latest/model.safetensors runs/again/checkpoints/latest/model.safetensors || bad "$what: another new head"
refused 2 "reset: tail: the model has no parameter or module of that name" "${begin[@]}" --set run.name=x --set model.reset=tail
try 0 "${begin[@]}" --set run.name=renamed --set "model.rename=[{from: \"layers.*.weight\", to: \"layers.*.weight\"}, {from: head.bias, to: head.bias}]"
refused 2 "model.rename: gone.\* names no tensor of base.safetensors" "${begin[@]}" --set run.name=x --set "model.rename=[{from: \"gone.*\", to: \"*\"}]"
refused 1 "unexpected: old.weight" "${begin[@]}" --set run.name=x --set "model.rename=[{from: \"head.*\", to: \"old.*\"}]"
try 0 "${begin[@]}" --set run.name=partly --set "model.rename=[{from: \"head.*\", to: \"old.*\"}]" --set model.init_strict=false
has err "2 of the model's 4 tensors are not there and stay as they are:"
has err "  missing     head.weight \[10, 9\]"; has runs/partly/log/rank-0.log "missing     head.bias"
has runs/partly/log/rank-0.log "unexpected  old.weight \[10, 9\]"
finish
