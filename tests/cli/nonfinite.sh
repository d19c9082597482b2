#!/usr/bin/env bash
# nonfinite.sh COMMAND - a step whose loss or gradient is not finite changes nothing: the run stops at once, with one message and the last good checkpoint, or skips
# the step, with the same bits in one piece, in parts and on two ranks; a run that never changed a weight fails.
source "$(dirname "$0")/common.sh"

# data FILE C Y: 64 rows, of which row 37, in step 5 of each epoch and in the second micro-batch of it, has this c and this y ("": its own)
data() {
    awk -v x="$2" -v y="$3" 'BEGIN {
        srand(3); print "a,b,c,y"
        for (i = 0; i < 64; i++) {
            a = rand(); b = rand(); c = rand(); d = a + 2 * b - c
            if (i == 37 && x != "") c = x
            if (i == 37 && y != "") d = y
            print a "," b "," c "," d
        }
    }' >"$1"
}
data loss.csv "" 1e30
data gradient.csv 1.3e20 "" # times the weight of about 0.1 it has a square that f32 holds, and the gradient is that times c
cat >recipe.yaml <<'EOT'
run: {seed: 5}
model: {type: mlp, inputs: {x: [3]}, outputs: {y: [1]}, hidden: [], scale: none}
data: {type: arrays, train: {x: "loss.csv:a,b,c", y: "loss.csv:y"}, shuffle: false}
loss: {type: mse, of: y}
train: {epochs: 3, global_batch: 8, micro_batch: 4, clip_norm: 1}
optimizer: {type: adamw, lr: 1e-4, ema_decay: 0.9}
checkpoint: {every_steps: 2, keep: 100}
eval: {every_epochs: -1}
log: {every: 1}
threads: 1
EOT
gradient=(--set data.train.x=gradient.csv:a,b,c --set data.train.y=gradient.csv:y)
at() { [ "$(readlink "runs/$1/checkpoints/latest")" = "$(printf step-%08d "$2")" ] || bad "$what: latest is $(readlink "runs/$1/checkpoints/latest")"; }

# ---- stop, with every way to save, on one rank and on two; alone with its bad number no rank waits for the other
for how in "" "--set checkpoint.async=true" "--workers 2" "--workers 2 --set precision.param=bf16" "--workers 2 --set parallel.data=ddp --set checkpoint.async=true"; do
    for kind in loss gradient; do
        rm -rf runs/stop
        start=$SECONDS
        if [ $kind = loss ]; then
            refused 1 'step 5 \(epoch 0\): the loss of micro-batch 1 is not a number: \(top level\): output 0 of square .*1 of 4 elements' train recipe.yaml --set run.name=stop $how
        else
            refused 1 'step 5 \(epoch 0\): the gradient is not finite, though the loss of every micro-batch is; micro-batch 1: ' train recipe.yaml --set run.name=stop "${gradient[@]}" $how
        fi
        has err 'This step changed no weight\. The next start continues from the last checkpoint, .*runs/stop/checkpoints/latest; with the same settings .* train\.nonfinite: skip'
        [ $((SECONDS - start)) -lt 60 ] || bad "$what: it took $((SECONDS - start)) s to stop"
        at stop 4
        has runs/stop/result.json '"state":"failed"'
        has runs/stop/report.html 'class="state failed">failed<'
        has runs/stop/report.html 'class="warn">.*step 5 \(epoch 0\): the .* is not (a number|finite)' # what failed, beside the curves
    done
done

# ---- skip: one piece; then stopped and continued, which needs no --allow-change; killed between two skips; on two ranks
for kind in loss gradient; do
    set=(--set train.nonfinite=skip)
    [ $kind = loss ] || set+=("${gradient[@]}")
    rm -rf runs
    try 0 train recipe.yaml --set run.name=whole "${set[@]}"
    has err "step 5 \(epoch 0\) is skipped: its $kind is not finite; 1 in a row, train.max_skips 10"
    has err "step  5/24 .*\(skipped: $kind\)"
    times 3 runs/whole/metrics.jsonl "\"skipped\":true,\"nonfinite\":\"$kind\""
    has runs/whole/metrics.jsonl "\"step\":13,.*\"skipped\":true,\"nonfinite\":\"$kind\""
    has runs/whole/result.json '"state":"finished"'
    has runs/whole/result.json '"nonfinite_steps":3'
    try 0 runs --metrics runs/whole --steps
    times 3 out "skipped: $kind not finite"
    try 1 train recipe.yaml --set run.name=parts ${set[@]:2}
    at parts 4
    try 0 train recipe.yaml --set run.name=parts "${set[@]}"
    has err 'continues after step 4 of 24, from .*; runs/parts failed'
    same parts
    has runs/parts/result.json '"nonfinite_steps":3'
    LOCKSTEP_FAULT=kill:0@12 "$lockstep" train recipe.yaml --set run.name=killed "${set[@]}" >out 2>err
    try 0 train recipe.yaml --set run.name=killed "${set[@]}"
    same killed
    try 0 train recipe.yaml --set run.name=two "${set[@]}" --workers 2
    same two
done

# ---- too many in a row; a checkpoint between them does not begin the count anew
awk 'BEGIN { print "a,b,c,y"; for (i = 0; i < 64; i++) print i / 64 ",0.5,0.25," (i >= 24 ? "1e30" : 0.5) }' >late.csv
refused 1 'step 7 .*; it is step 4 in a row that was skipped, and max_skips is 4\. This step' train recipe.yaml --set run.name=many --set data.train.x=late.csv:a,b,c --set data.train.y=late.csv:y --set train.nonfinite=skip --set train.max_skips=4
times 0 err "train.nonfinite: skip leaves" # it is set already
at many 6
has runs/many/checkpoints/latest/trainer.json '"nonfinite_skips":3,'
refused 1 'step 7 .*; it is step 4 in a row' train recipe.yaml --set run.name=many --set data.train.x=late.csv:a,b,c --set data.train.y=late.csv:y --set train.nonfinite=skip --set train.max_skips=4

# ---- f16 whose loss scale never comes down to what the gradients allow; again when it is started again
data good.csv "" ""
for way in stop skip; do
    never=(train recipe.yaml --set run.name=never-$way --set data.train.x=good.csv:a,b,c --set data.train.y=good.csv:y --set precision.param=f16 --set precision.scaler.init=1e38 --set train.nonfinite=$way)
    for start in 1 2; do
        refused 1 'none of the 24 steps changed a weight: the gradients overflowed f16, and the loss scale has only come down to [0-9.]+e\+30' "${never[@]}"
    done
    has runs/never-$way/result.json '"state":"failed"'
done

# ---- a loss of many digits is shown as what it is, and a long message says that it goes on
data large.csv "" 1e15
try 0 train recipe.yaml --set run.name=large --set data.train.x=large.csv:a,b,c --set data.train.y=large.csv:y; has err 'train loss [0-9.]+e(28|29)  '
try 1 train recipe.yaml --set run.name=long
try 0 runs; has out '^ +step 5 .* \.\.\.$'
finish
