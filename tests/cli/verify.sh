#!/bin/bash
# verify.sh COMMAND - steps of a run are trained again, on one and on two ranks, and every number is compared; a number that was changed is found; what cannot be
# verified is refused. And train --until.
source "$(dirname "$0")/common.sh"

# black images, nearly all of class 0: small and learned in a step, so the last checkpoint is the best one
mkdir digits
digits() { # NAME SAMPLES
    { printf '\0\0\010\003'; printf "$(idx_number $2)$(idx_number 28)$(idx_number 28)"; head -c $(($2 * 784)) /dev/zero; } | gzip >digits/$1-images-idx3-ubyte.gz
    { printf '\0\0\010\001'; printf "$(idx_number $2)"; printf '\1\2\3\4\5\6\7\10\11'; head -c $(($2 - 9)) /dev/zero; } | gzip >digits/$1-labels-idx1-ubyte.gz
}
digits train 4800; digits t10k 64
cat >v.yaml <<'EOF'
model: {type: mlp, image_size: 28, hidden: [16], classes: 10}
data: {type: mnist, path: digits}
train: {epochs: 2, steps_per_epoch: 5, global_batch: 16, micro_batch: 4}
checkpoint: {every_steps: 2, keep: 2}
schedule: {type: cosine}
threads: 1
EOF
export TMPDIR=$PWD/again; mkdir again

# a run that is stopped after a step has the bits of one in one go, whose schedule is as long
try 0 train v.yaml
try 75 train v.yaml --set run.name=parts --until 3; has err "stopped after step 3 of 10 on request; everything is saved"
sed -i 's/"code":"[0-9a-f]*"/"code":"0123456789abcdef"/' runs/parts/result.json # as if another build had trained these
refused 2 "--until 3: the run continues behind step 3" train v.yaml --set run.name=parts --until 3
try 0 train v.yaml --set run.name=parts --workers 2
cmp runs/parts/checkpoints/latest/model.safetensors runs/v/checkpoints/latest/model.safetensors || bad "--until changes the weights"
digests() { sed -n 's/.*"checkpoint","step":10,.*\("model":"[0-9a-f]*","optimizer":"[0-9a-f]*"\).*/\1/p' "runs/$1/metrics.jsonl"; }
[ -n "$(digests v)" ] && [ "$(digests v)" = "$(digests parts)" ] || bad "digests: $(digests v) and $(digests parts)"
try 0 train v.yaml --set run.name=beside --set checkpoint.async=true --set checkpoint.files=per_rank --workers 2
[ "$(digests v)" = "$(digests beside)" ] || bad "digests of files of each rank: $(digests beside)"

try 0 verify runs/parts --from 0; has out "10 losses, 2 evaluations, 6 checkpoints" # stopped after step 3: that save is not made again
has out "^ +another build trained steps 1 to 3: lockstep [0-9.]*, code 0123456789abcdef; this is"
try 0 verify runs/parts; times 0 out "another build"
try 0 verify runs/v; has out "steps 9 to 10 have the same bits: 2 losses, 1 evaluation, 1 checkpoint$"
try 0 verify runs/v --from 0 --workers 2 --json; has out '"from":0,"to":10,"steps":10,"evals":2,"checkpoints":6,"digests":0,"not_compared":0,"same":true,"differ":0,"model":"[0-9a-f]{16}","optimizer":"[0-9a-f]{16}"'
try 0 verify runs/v --from 0 --to 4; has out "steps 1 to 4 have the same bits: 4 losses, 0 evaluations, 2 checkpoints"
[ -z "$(ls again)" ] || bad "verify leaves $(ls again)"

refused 2 "--to 3: .* no digest of that step: .* the last one before it is of step 2" verify runs/v --to 3
refused 2 "--from 3: there is no runs/v/checkpoints/step-00000003; its oldest is of step 8 " verify runs/v --from 3
refused 2 "--from 10: step 10 is the last that can be compared" verify runs/v --from 10
refused 2 "v.yaml: no run: it has no recipe.yaml$" verify v.yaml
refused 2 "runs/v/recipe.yaml: no run: it has no recipe.yaml; did you mean runs/v\?" verify runs/v/recipe.yaml
mkdir own; echo text >own/config.txt
refused 2 "own is the run of a program of its own, which verify cannot start: run the program again" verify own
refused 2 "v: no run: it has no recipe.yaml; did you mean runs/v\?" verify v
for own in run.name=x run.storage=x; do refused 2 "--set $own: verify trains in a new folder" verify runs/v --set $own; done
OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 refused 2 "verify starts its ranks itself: call it once" verify runs/v
OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 try 2 verify runs/v; times 0 err "." # one of them says it
try 1 verify runs/v --hosts nowhere --rsh false; has err "host nowhere does not answer"
try 2 verify runs/v --set train.epochs=1 --from 0; has err "training ended before step 10 \(train.steps, train.epochs\)"
# what training refuses leaves no folder, and verify says what to look at
try 1 verify runs/v --workers 3; has err "runs/v: steps 9 to 10 were not trained again, see the message above: they need the recipe"; times 0 err "the log in"
try 1 verify runs/v --set optimizer.lr=1; has err "optimizer.lr: 1 here, 0.001 there"; times 0 err "the log in"
[ -z "$(ls again)" ] || bad "verify leaves $(ls again)"
# a run that may start its ranks again is verified on any number of them; digests between checkpoints, one copy of each
try 0 train v.yaml --set run.name=many --set failure.max_failures=3 --set failure.grow=true --set failure.digest_every=3
try 0 verify runs/many --from 0 --to 9; has out "9 losses, 1 evaluation, 5 checkpoints, 7 digests"; times 0 err "^warning"

# bits that depend on the layout of the ranks: verify takes the run's, and says so where it cannot. The layout may change on the way
idx_data noise 480 64 28
three="--set data.path=noise --set train.global_batch=24 --set run.name"
try 75 train v.yaml --workers 2 $three=layout --until 4
try 0 verify runs/layout --from 0
try 0 train v.yaml --workers 3 $three=layout
refused 2 "runs/layout: step 4 was trained on dp=2 fsdp, and step 5 on dp=3 fsdp, and their bits are not the same .* verify the steps before or behind step 4, as with --from 0 --to 4" verify runs/layout --from 0
try 0 verify runs/layout --from 0 --to 4; try 0 verify runs/layout; has out "steps [69] to 10 have the same bits"
try 2 verify runs/layout --workers 1; has err "^error: runs/layout cannot be compared: the ranks were dp=3 fsdp and are dp=1 fsdp now, whose bits are not the same .*; so step [0-9]+ differs"
# and those that depend on the level: it is taken, too
LOCKSTEP_ISA=generic try 0 train v.yaml --set run.name=level
try 0 verify runs/level; try 0 verify runs/level --from 0
sed -i 's/"isa":"generic"/"isa":"avx2"/' runs/level/result.json
try 2 verify runs/level --from 0 --set isa=generic --set run.seed=1; has err "cannot be compared: the ISA level was avx2 and is generic now \(--set isa=avx2\); so step 1 differs"
sed -i 's/"isa":"avx2"/"isa":"none"/' runs/level/result.json
try 1 verify runs/level; has err "isa: one of auto, generic"
# without checkpoints, steps behind the last digest are not compared, and verify says so
try 0 train v.yaml --set run.name=bare --set failure.digest_every=3 --set checkpoint.every_steps=0 --set checkpoint.every_epochs=-1
try 0 verify runs/bare; has out "steps 1 to 9 .* 9 losses, 1 evaluation, 0 checkpoints, 3 digests"; has out "^ +steps 10 to 10 have no digest behind them and are not compared"
try 0 verify runs/bare --json; has out '"not_compared":1,"same":true'
# other samples are named, also where no step has read them, and other paths are not
cp -r digits moved
try 0 verify runs/v --from 0 --set data.path=moved
gunzip -c digits/train-images-idx3-ubyte.gz | { head -c 3000000; printf '\1'; tail -c +2; } | gzip >moved/train-images-idx3-ubyte.gz
try 1 verify runs/v --from 0 --set data.path=moved; has err "^error: runs/v was trained on other data: training data: images moved/train-images-idx3-ubyte.gz here, digits/train-images-idx3-ubyte.gz there; what"
try 1 verify runs/v --set data.path=moved; has err "training data: images moved/train-images-idx3-ubyte.gz here"
rm -rf again/*
mkdir 'a "b'; TMPDIR='a "b' try 0 verify runs/v

# memory that was wrong once on a process whose weights have no copy: only verify finds it. (No other fault can happen to one process.)
LOCKSTEP_FAULT=flip@5 try 0 train v.yaml --set run.name=flipped --set checkpoint.every_steps=3
refused 1 "runs/flipped: step [56]: .* in the run, and .* now; what was trained again is in " verify runs/flipped --from 0
LOCKSTEP_FAULT=flip@5:rank=1 try 0 train v.yaml --set run.name=unflipped; try 0 verify runs/unflipped --from 0
LOCKSTEP_FAULT=kill@5 refused 2 "^error: LOCKSTEP_FAULT=kill@5: it happens in a collective, and one process makes none" train v.yaml --set run.name=wrong
rm -rf again/*

# a request to stop, which verify gets alone, ends what it has started
try 0 train v.yaml --set run.name=long --set train.steps_per_epoch=300
LOCKSTEP_FAULT=delay@random:seconds=0.2 "$lockstep" verify runs/long --from 0 --workers 2 >out 2>err & pid=$!
what="verify that is stopped"
begun() { grep -q '"step":3,' again/lockstep-verify-*/again/metrics.jsonl; }
until_true begun; kill -TERM $pid; wait $pid; [ $? = 75 ] || bad "$what: another exit status"
has err "^stopped before step 600 was trained again"
[ -z "$(ls again)" ] || bad "verify leaves $(ls again)"

# the weights that are handed over are those of the run: their digest says so, in whatever files they are; and a checkpoint that the run did not save is found
digest() { sed -n 's/.*the weights have digest //p' out; }
try 0 inspect runs/v/checkpoints/step-00000010 --digest; want=$(digest)
once runs/v/metrics.jsonl "\"checkpoint\",\"step\":10,.*\"model\":\"$want\""
try 0 export runs/v --to v.safetensors --quiet; try 0 inspect v.safetensors --digest; [ "$(digest)" = "$want" ] || bad "digest of exported weights: $(digest)"
try 0 inspect runs/beside --digest; [ "$(digest)" = "$want" ] || bad "digest of files of each rank: $(digest)"
try 0 inspect runs/v --digest --verify --json; has out "^\{\"path\":.*\"digest\":\"$want\""
try 0 verify runs/v; has out "; the checkpoint of the last step has these weights"
try 0 train v.yaml --set run.name=adapter --set train.lora.rank=2 --set train.lora.targets=layers.0 --set model.init=runs/v/checkpoints/latest; try 0 verify runs/adapter; has out "; the checkpoint of the last step has these weights"
try 0 train v.yaml --set run.name=twin --set run.seed=7
cp -r runs/v forged; rm -r forged/checkpoints/*; cp -r runs/twin/checkpoints/step-000000* forged/checkpoints
refused 1 "forged/checkpoints/step-00000008 has weights with digest [0-9a-f]{16}, and metrics.jsonl says [0-9a-f]{16}: it is not the checkpoint that the run saved" verify forged
refused 1 "forged/checkpoints/step-00000010 has weights with digest" verify forged --from 0

# the build is recorded, and another one is mentioned
times 0 out "another build"
cp -r runs/v saved
sed -i 's/"code":"[0-9a-f]*"/"code":"0123456789abcdef"/' runs/v/result.json
try 0 verify runs/v; has out "^ +another build trained steps [0-9]+ to 10: lockstep [0-9.]*, code 0123456789abcdef; this is [0-9.]*, code [0-9a-f]{16}$"
try 0 verify runs/v --json; has out '"same_code":false'
cp saved/result.json runs/v
# the folder is enough for somebody else: another place, without what the run has beside it
# metrics.jsonl that ends early, or in the middle
sed -i '/"kind":"step","step":10,/,$d' runs/v/metrics.jsonl
refused 1 "runs/v: the run has 10 steps \(result.json, checkpoints\), and metrics.jsonl ends with step 9: rows are missing; --to 8 compares" verify runs/v
try 0 verify runs/v --to 8 --from 0; has out "8 losses, 1 evaluation, 5 checkpoints"
{ head -n 9 saved/metrics.jsonl; printf '\0\n'; tail -n +10 saved/metrics.jsonl; } >runs/v/metrics.jsonl
try 0 verify runs/v --from 0; has out "10 losses, 2 evaluations, 6 checkpoints"
cp saved/metrics.jsonl runs/v
# rows of an attempt that a later one has replaced do not count, also where it was longer: here its weights were lost
{ grep '"attempt":0' saved/metrics.jsonl | sed 's/"step":10,/"step":12,/; /"step":12,/s/"model":"[0-9a-f]*"/"model":"0"/'; sed -n '/"kind":"step","step":9,/,$s/"attempt":0/"attempt":1/p' saved/metrics.jsonl; } >runs/v/metrics.jsonl
try 0 verify runs/v --from 0; has out "10 losses, 2 evaluations, 6 checkpoints"; times 0 out "not compared"
cp saved/metrics.jsonl runs/v
mkdir elsewhere; cp -r runs/v/recipe.yaml runs/v/metrics.jsonl runs/v/result.json elsewhere
try 0 verify elsewhere --from 0; has out "10 losses, 2 evaluations, 6 checkpoints"
sed -i '/"kind":"step","step":9,/s/"loss":[0-9.]*/"loss":2.5/' runs/v/metrics.jsonl
refused 1 "step 9: loss is 2.5 in the run, and [0-9.]* now; what was trained again is in .*/again/lockstep-verify-" verify runs/v
cp saved/metrics.jsonl runs/v; sed -i '/"checkpoint","step":4,/s/"optimizer":"[0-9a-f]*"/"optimizer":"0"/' runs/v/metrics.jsonl
refused 1 "step 4: the digest of the optimizer is \"0\" in the run" verify runs/v --from 0
cp saved/metrics.jsonl runs/v
sed -i '/"kind":"step","step":5,/d' runs/v/metrics.jsonl # a loss that is left out
refused 1 "step 5: metrics.jsonl of the run has no loss of this step; what was trained again is in [^;]*$" verify runs/v --from 0
cp saved/metrics.jsonl runs/v
sed -i '/"step":7,/s/"loss":[0-9.]*/"loss":2.5/' runs/v/metrics.jsonl
try 1 verify runs/v --from 0 --json; has out '"same":false,"differ":7,"what":"loss is 2.5 in the run'
try 0 train v.yaml --set run.name=parts --set train.epochs=3 --set optimizer.lr=0.01 --allow-change
refused 2 "recipe or data were changed behind step 10 .* with --from 10" verify runs/parts --from 0
try 0 verify runs/parts; has out "steps 11 to 15 have the same bits|steps 15 to 15 have the same bits"
sed -i 's/,"model":"[0-9a-f]*"//' runs/v/metrics.jsonl
refused 2 "metrics.jsonl has no digest: nothing was saved" verify runs/v
finish
