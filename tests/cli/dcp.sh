#!/bin/bash
# dcp.sh COMMAND GOLDEN - tutorial 5 with directories of PyTorch's distributed checkpoint: a run that goes on from one ends with the bytes of a run that nothing
# interrupted, on any number of ranks; where it goes on is said or told; what goes wrong, one message each. GOLDEN: tests/golden, with what PyTorch wrote.
source "$(dirname "$0")/common.sh"
golden=$2

cat >recipe.yaml <<'EOT'
model: {type: mlp, hidden: [9]}
data: {type: shapes}
train: {epochs: 9, steps: 12, global_batch: 12000, micro_batch: 3000}
optimizer: {type: adamw, lr: 1e-2, betas: [0.8, 0.95], weight_decay: 0.1}
schedule: {type: cosine, total_steps: 12}
eval: {every_epochs: -1}
threads: 1
EOT

# ---- forth and back: weights, moments and steps, as torch_save_to_dcp and dcp_to_torch_save have them
try 0 train recipe.yaml --set run.name=whole
try 0 train recipe.yaml --set run.name=part --set train.steps=7
try 0 export runs/part --to saved --format dcp --optimizer
try 0 train recipe.yaml --resume saved --set run.name=goes-on
has err "does not say which samples come next: continues with epoch 1, step 2 of 5"
has err "after 7 steps: weights and moments; its rate was "
has err "continues after step 7 of 12, from saved"
same goes-on
try 0 train recipe.yaml --resume saved --set run.name=ranks --workers 2; same ranks
try 0 train recipe.yaml --resume saved --resume-at 1:2 --set run.name=told; same told
times 0 err "does not say"
try 0 train recipe.yaml --resume saved --resume-at 1:3 --set run.name=elsewhere
cmp -s runs/whole/checkpoints/latest/model.safetensors runs/elsewhere/checkpoints/latest/model.safetensors && bad "$what: other samples, the same weights"
try 0 train recipe.yaml --set run.name=goes-on; has err "is finished"

# a file for each of three ranks, as they would have written it
try 0 export runs/part --to files --format dcp --optimizer --ranks 3
[ -f files/__2_0.distcp ] && [ ! -e files/__3_0.distcp ] || bad "$what: other files: $(ls files)"
try 0 train recipe.yaml --resume files --set run.name=files; same files
refused 2 "--ranks needs --to FILE.dcp or --format dcp, not --to x.pt" export runs/part --to x.pt --ranks 2

# in the shape of an AppState, {"app": {"model": ..., "optim": ...}}; from directory to directory
try 0 export runs/part --to app --format dcp --optimizer --prefix app
grep -aq "app.optim.param_groups.0.betas" app/.metadata || bad "$what: other names"
try 0 export app --to again --format dcp --optimizer --ranks 2
try 0 export runs/part --to once --format dcp --optimizer --ranks 2
diff -r again once || bad "$what: from directory to directory something changed"
try 0 export runs/part --to plain.dcp --optimizer --prefix app; diff -r app plain.dcp || bad "$what: another directory than --format dcp"
refused 2 "--to x.pt: the name is of a file, and --format dcp writes a directory" export runs/part --to x.pt --format dcp
try 0 export runs/part --to weights --format dcp
try 0 export runs/part --to deep --format dcp --prefix a.b.; try 0 inspect deep --prefix a.b; has out "in 4 tensors"
refused 2 "prefix a..b: 1 to 4 words with dots between them" export runs/part --to x --format dcp --prefix a..b
refused 1 "weights/ holds no state of an optimizer" export weights --to x --format dcp --optimizer

# metadata.json beside .metadata says which epoch has ended
[ ! -e saved/metadata.json ] || bad "$what: no epoch has ended"
try 0 train recipe.yaml --set run.name=epoch --set train.steps=5
try 0 export runs/epoch --to epoch --format dcp --optimizer
[ "$(cat epoch/metadata.json)" = '{"epoch": 0, "step": 4}' ] || bad "$what: $(cat epoch/metadata.json)"
try 0 train recipe.yaml --resume epoch --set run.name=second
has err "epoch/metadata.json says that epoch 0 has ended: continues with epoch 1"; same second
times 0 err "does not say which samples"
try 0 export epoch --to copied --format dcp --optimizer; cmp epoch/metadata.json copied/metadata.json || bad "$what: another metadata.json"
try 0 export runs/epoch --to epoch --format dcp --optimizer --force
echo '{"epoch": 3, "step": 17}' >epoch/metadata.json
try 0 train recipe.yaml --resume epoch --set run.name=later --set train.steps=6; has runs/later/metrics.jsonl '"step":6,"epoch":4,'
echo '{"epoch": "last"}' >epoch/metadata.json
refused 1 "epoch/metadata.json: epoch must be the number of the epoch that has ended" train recipe.yaml --resume epoch --set run.name=x

# ---- SGD counts no steps
sed 's/^optimizer:.*/optimizer: {type: sgd, lr: 0.1, momentum: 0.9, nesterov: true}/' recipe.yaml >sgd.yaml
try 0 train sgd.yaml --set run.name=whole-sgd
try 0 train sgd.yaml --set run.name=part-sgd --set train.steps=7
try 0 export runs/part-sgd --to sgd --format dcp --optimizer
refused 2 "sgd: its optimizer does not count steps: give --resume-at EPOCH:STEP" train sgd.yaml --resume sgd --set run.name=sgd
try 0 train sgd.yaml --resume sgd --resume-at 1:2 --set run.name=sgd
cmp runs/whole-sgd/checkpoints/latest/model.safetensors runs/sgd/checkpoints/latest/model.safetensors || bad "$what: another model"

# ---- what is refused
refused 2 "saved was made with other settings: optimizer.weight_decay: 0.2 here, 0.1 there .*--allow-change" \
    train recipe.yaml --resume saved --set run.name=x --set optimizer.weight_decay=0.2
refused 2 "optimizer.betas: \[0.9, 0.95\] here, \[0.8, 0.95\] there" train recipe.yaml --resume saved --set run.name=x --set "optimizer.betas=[0.9, 0.95]"
refused 2 "optimizer.decoupled_weight_decay: false here, true there" train recipe.yaml --resume saved --set run.name=x --set optimizer.type=adam
refused 1 "keeps exp_avg of every parameter, and the one here does not" train sgd.yaml --resume saved --set run.name=x
refused 1 "1 of another shape: head.weight|does not fit the model" train recipe.yaml --resume saved --set run.name=x --set "model.hidden=[8]"
refused 2 "the run has a checkpoint of its own" train recipe.yaml --resume saved --set run.name=whole
refused 2 "this is not a checkpoint: .*a PyTorch directory a .metadata.*--set model.init=runs" train recipe.yaml --resume runs --set run.name=x
refused 2 "resume-at 0:99999: an epoch has" train recipe.yaml --resume saved --resume-at 0:99999 --set run.name=x
refused 2 "resume-at x: EPOCH:STEP is needed" train recipe.yaml --resume saved --resume-at x --set run.name=x
refused 2 "a checkpoint contains its step" train recipe.yaml --resume runs/part/checkpoints/latest --resume-at 0:1 --set run.name=x
refused 2 "prefix needs --resume CHECKPOINT" train recipe.yaml --prefix app.
refused 1 "weights holds no state of an optimizer .*model.init=weights" train recipe.yaml --resume weights --set run.name=x
try 0 train recipe.yaml --resume saved --set run.name=changed --set optimizer.weight_decay=0.2 --allow-change
has runs/changed/metrics.jsonl '"kind":"change".*weight_decay'

# ---- what PyTorch wrote: any prefix, and the model alone
try 0 inspect "$golden/dcp_resume_app"; has out "371"
refused 2 "the prefix trainr.; its names begin with \"ema\", \"trainer\"" inspect "$golden/dcp_resume_flat" --prefix trainr.
try 0 inspect "$golden/dcp_resume_flat" --prefix trainer.; has out "371"
try 0 inspect "$golden/dcp_resume_flat" --prefix trainer; has out "371"
try 0 export "$golden/dcp_resume_flat" --prefix ema. --to ema.pt
try 0 inspect ema.pt; has out "decay"
refused 2 "prefix: .*is not a PyTorch directory" inspect ema.pt --prefix trainer.
refused 2 "prefix: .*is not a PyTorch directory" export runs/part --prefix trainer. --to x.pt
# a state dict that was flat gets names and one group
try 0 export "$golden/dcp_resume_flat" --prefix trainer. --to named --format dcp --optimizer
grep -aq "optimizer.param_groups.0.betas" named/.metadata || bad "$what: no group"
grep -aq "param_groups.1" named/.metadata && bad "$what: more than one group"

# ---- what its HuggingFaceStorageWriter wrote; files that are more than weights; folders of other programs
try 0 inspect "$golden/hf_shards"; has out "30  elements in 6 tensors, 100 B"; has out "columns +12  BF16 \[2, 6\]"
try 0 export "$golden/hf_indexed" --to joined.safetensors
try 0 inspect joined.safetensors; has out "30  elements in 6 tensors"
refused 2 "one rank's part of what .*: name the folder" inspect "$golden/hf_shards/shard-00001-model-00001-of-00001.safetensors"
mkdir one other; try 0 export runs/part --to one/shard-00001-model-00001-of-00001.safetensors
try 0 train recipe.yaml --set run.name=from-shards --set train.steps=1 --set model.init=one
try 0 inspect "$golden/pt_more_types.pt"; has out "5  elements in 2 tensors, 44 B"
refused 1 "tensor \"odd\": .*save tensor.resolve_neg" export "$golden/pt_refused_negated.pt" --to x.safetensors
touch other/__0_0.distcp; refused 1 "other: .*it has __0_0.distcp, files of PyTorch's .* without their index .metadata" inspect other
refused 1 "other: .*without their index .metadata" train recipe.yaml --set run.name=x --set model.init=other
finish
