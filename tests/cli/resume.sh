#!/bin/bash
# resume.sh COMMAND - a run that was stopped, killed or grown, on any number of ranks, ends with the files of one that nothing ever disturbed.
source "$(dirname "$0")/common.sh"

newest() { ls "runs/$1/checkpoints" | sed -n 's/^step-0*//p' | tail -n 1; }
last_step() { grep -o '"kind":"step","step":[0-9]*' "runs/$1/metrics.jsonl" 2>/dev/null | tail -n 1 | grep -o '[0-9]*$'; }
makes_steps() { [ "$(last_step "$name")" != "$1" ] && [ "$(($(last_step "$name") % 40))" -gt 5 ]; }
# begin NAME WORKERS WORDS...: without end, in the background; returns after a few steps
begin() {
    name=$1
    local before; before=$(last_step "$name")
    "$lockstep" train small.yaml --set run.name="$1" --workers "$2" --set train.steps=0 "${@:3}" >out 2>err </dev/null &
    parent=$!
    what="$1 on $2"
    until_true makes_steps "$before"
}
end() { # end SIGNAL STATUS
    kill "$1" $parent
    wait $parent 2>/dev/null; got=$?
    [ $got -eq "$2" ] || { bad "$what: exit status $got instead of $2"; cat err; }
}

# 960 images of noise: an epoch is 15 steps of 4 micro-batches. Clipping, weight decay, a schedule, evaluations and the best of them.
{ printf '\0\0\010\003\0\0\003\300\0\0\0\010\0\0\0\010'; head -c 61440 /dev/urandom; } >images
{ printf '\0\0\010\001\0\0\003\300'; head -c 100000 /dev/urandom | tr -cd '\000-\011' | head -c 960; } >labels
cat >small.yaml <<END
model: {type: mlp, image_size: 8, hidden: [48, 32]}
data: {type: idx, train_images: images, train_labels: labels, eval_images: images, eval_labels: labels}
train: {epochs: 1000000, global_batch: 64, micro_batch: 16, clip_norm: 1}
optimizer: {type: adamw, lr: 2e-3, weight_decay: 1e-2}
schedule: {type: cosine, warmup_steps: 20, total_steps: 20000}
eval: {every_epochs: 20}
checkpoint: {every_epochs: 0, every_steps: 40, keep: 2}
threads: 1
END

# ---- stopped in the middle of an epoch, on 2 ranks and on 1; then the parent of 2 ranks is killed
begin stopped 2; end -TERM 75
has err "everything is saved"; has runs/stopped/result.json '"state":"stopped"'
first=$(newest stopped)
[ "$first" = "$(last_step stopped)" ] || bad "$what: stopped after step $(last_step stopped), saved step $first"
begin stopped 1; end -INT 75
has err "continues after step $first of "; has runs/stopped/metrics.jsonl '"attempt":1'
rows=$(grep -c '"kind":"step"' runs/stopped/metrics.jsonl)
[ "$rows" -eq "$(last_step stopped)" ] || bad "$what: $rows rows for $(last_step stopped) steps"
begin unsaved 2 --set checkpoint.every_epochs=-1 --set checkpoint.every_steps=0 --set checkpoint.keep=2; end -TERM 75
has err "nothing is saved, because checkpoint.every_epochs is -1"; times 0 err "everything is saved"; has runs/unsaved/result.json '"state":"stopped"'
[ -z "$(ls runs/unsaved/checkpoints)" ] || bad "$what: checkpoints of a run that has none"
begin killed 2
until_true test -e runs/killed/checkpoints/latest
end -KILL 137
until_true free killed # its ranks are gone too
saved=$(newest killed)
printf '{"kind":"st' >>runs/killed/metrics.jsonl                 # half a line stays a line of its own,
mkdir runs/killed/checkpoints/.lockstep-unfinished-step-00000099 # half a checkpoint goes away,
rm runs/killed/checkpoints/latest                                # and the newest counts, had the link not followed yet
begin early 1; end -KILL 137
rm -rf runs/early/checkpoints # killed before its first one

# ---- all of them to the same end
steps=$(printf '%s\n' "$(last_step stopped)" "$(last_step killed)" "$(last_step early)" | sort -n | tail -n 1)
steps="--set train.steps=$((steps + 50))"
try 0 train small.yaml $steps --set run.name=whole
# same_run NAME: its last checkpoint and its losses are those of the run `whole`; of a step or epoch that came twice, the last time counts.
# (The run that is grown was evaluated where it had its end at first.)
same_run() {
    same "$1"
    for run in whole "$1"; do
        for kind in '"step","step":[0-9]*,"epoch":[0-9]*' '"epoch","epoch":[0-9]*,"step":[0-9]*,"samples":[0-9]*' '"eval","step":[0-9]*,"epoch":[0-9]*'; do
            grep -o "\"kind\":$kind,\"loss\":[^,]*" "runs/$run/metrics.jsonl" | grep -v '"eval","step":37,' | tac | awk -F'[:,]' '!seen[$4]++' | tac
        done >"$run.losses"
    done
    cmp whole.losses "$1.losses" || bad "$what: other losses"
    has "runs/$1/result.json" '"state":"finished"'
}
try 0 train small.yaml $steps --set run.name=stopped --workers 4
same_run stopped; has runs/stopped/result.json '"attempt":2'; has runs/stopped/report.html '>finished<'
try 0 train small.yaml $steps --set run.name=stopped; has err "nothing to do"
try 0 train small.yaml $steps --set run.name=killed
has err "continues after step $saved of .*runs/killed died"
same_run killed
[ "$(grep -c '^{"kind":"st$' runs/killed/metrics.jsonl)" -eq 1 ] || bad "$what: the torn line was not ended"
[ -z "$(ls -A runs/killed/checkpoints | grep unfinished)" ] || bad "$what: left-overs of a save are still there"
try 0 train small.yaml $steps --set run.name=early; has err "starts from the beginning"
same_run early
try 0 train small.yaml --set run.name=grown --set train.steps=37
try 0 train small.yaml $steps --set run.name=grown --workers 2; has err "continues after step 37 of "
same_run grown

# ---- as another run; refusals name what changed
from=$(ls -d runs/killed/checkpoints/step-* | head -n 1)
try 0 train small.yaml $steps --set run.name=fork --resume "$from"; has err "continues after"
cmp runs/whole/checkpoints/latest/model.safetensors runs/fork/checkpoints/latest/model.safetensors || bad "$what: another model"
more="--set train.steps=100000 --dry-run"
try 2 train small.yaml $more --set run.name=killed --resume "$from"; has err "has a newer checkpoint"
try 2 train small.yaml $more --set run.name=grown --set optimizer.lr=1e-3
has err "optimizer.lr: 0.001 here, 0.002 there \(the update"; has err "--allow-change"
try 0 train small.yaml $more --set run.name=grown --set optimizer.lr=1e-3 --allow-change; has err "changed since .*optimizer.lr"

# ---- the same data: when it is not found any more, the built-in set does not take its place unseen
mkdir -p real/mnist
for part in train t10k; do
    { printf '\0\0\010\003\0\0\0\100\0\0\0\034\0\0\0\034'; head -c 50176 /dev/urandom; } >real/mnist/$part-images-idx3-ubyte
    { printf '\0\0\010\001\0\0\0\100'; head -c 64 images | tr '\000-\377' '\000-\011\000-\011\000-\011\000-\011'; } | head -c 72 >real/mnist/$part-labels-idx1-ubyte
done
sed 's/image_size: 8/image_size: 28/; s/^data:.*/data: {type: mnist, download: false}/; s/global_batch: 64/global_batch: 32/' small.yaml >mnist.yaml
try 0 train mnist.yaml --set data.path=real --set train.steps=2 --set run.name=moved
try 2 train mnist.yaml --set train.steps=4 --set run.name=moved; has err "the built-in shapes here, the real ones there"
try 0 train mnist.yaml --set data.path=real --set train.steps=4 --set run.name=moved; has err "continues after step 2"

# ---- result.json cannot be replaced: the run stays as it was
rm runs/killed/result.json; mkdir runs/killed/result.json
for workers in 1 2; do
    try 1 train small.yaml --workers $workers --set train.steps=100000 --set run.name=killed
    once err '^error: .*runs/killed/result.json: cannot write: Is a directory'; times 0 err 'invariant'
done

# ---- damage is named, and nothing else is taken in its place
last=runs/early/checkpoints/$(readlink runs/early/checkpoints/latest)
printf '\xff\xff' | dd of="$last/optimizer.safetensors" bs=1 seek=20000 conv=notrunc 2>/dev/null
for workers in 1 2; do
    try 1 train small.yaml $more --workers $workers --set run.name=early
    has err "$last/optimizer.safetensors: bytes [0-9]* to [0-9]* are damaged"; has err "by itself: delete .*continues from the checkpoint before it"
done
rm "$last/manifest.json"
try 1 train small.yaml $more --set run.name=early; has err "manifest.json: not there"

finish
