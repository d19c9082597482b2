#!/usr/bin/env bash
# stop_evaluation.sh COMMAND CC ROOT SERVER - a request to stop is obeyed within a batch of an evaluation, and the next start does the whole end of the epoch:
# weights, rows, best, early stopping and checkpoints are those of a run that nothing disturbed.
source "$(dirname "$0")/common.sh"
cc=$2 root=$3 server=$4

# A module whose evaluation reads its own end: STOP_AT=PASS:SAMPLE sends SIGTERM to the process that reads this sample of the evaluation's pass number PASS (from 0);
# STOP_RANK: only on this rank. SLOW: seconds for each sample. READS: a file that gets a byte for every sample.
cat >model.c <<'END'
#include <lockstep/lockstep.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static ls_status build(ls_graph *g, const void *self, int64_t batch)
{
    (void)self;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, 2)), y = ls_input(g, "y", LS_TYPE(LS_F32, batch, 1)), found = ls_linear(g, "fc", x, 1);
    ls_loss(g, "l", ls_square(g, ls_sub(g, found, y)), 1, LS_BY_ELEMENT, NULL);
    ls_output(g, "found", found);
    return ls_graph_finish(g);
}
static void end_it(int64_t i)
{
    static long long passes = -1, last = 200;
    const char *at = getenv("STOP_AT"), *rank = getenv("STOP_RANK"), *own = getenv("LOCKSTEP_RANK"), *slow = getenv("SLOW"), *reads = getenv("READS");
    const int number = getenv("KILL") ? SIGKILL : SIGTERM;
    long long pass, sample;
    passes += i < last;
    last = i;
    if (reads) {
        const int fd = open(reads, O_WRONLY | O_APPEND | O_CREAT, 0666);
        if (fd < 0 || write(fd, ".", 1) != 1)
            abort();
        close(fd);
    }
    if (slow)
        usleep((useconds_t)(1e6 * atof(slow)));
    if (at && (!rank || (own && !strcmp(own, rank))) && sscanf(at, "%lld:%lld", &pass, &sample) == 2 && passes == pass && i == sample)
        kill(getpid(), number);
}
static ls_status read_one(const ls_dataset *d, int64_t i, void *const *to)
{
    const float a = (float)(i * 37 % 64) / 64, b = (float)(i * 11 % 32) / 32;
    if (d->split == LS_SPLIT_EVAL)
        end_it(i);
    else if (getenv("STOP_TRAIN"))
        kill(getpid(), SIGTERM);
    if (to[0])
        memcpy(to[0], (float[]){ a, b }, 2 * sizeof(float));
    if (to[1])
        *(float *)to[1] = 3 * a - b + 0.5f;
    return LS_OK;
}
static ls_status data(ls_dataset **out, void *self, ls_split split, const void *settings)
{
    static const ls_field fields[] = { { .name = "x", .type = { LS_F32, 1, { 2 } } }, { .name = "y", .type = { LS_F32, 1, { 1 } } } };
    static ls_dataset sets[2];
    (void)self, (void)settings;
    sets[split] = (ls_dataset){ .name = "n", .source = "s", .split = split, .n = split == LS_SPLIT_EVAL ? 200 : 48, .n_fields = 2, .fields = fields, .read = read_one };
    *out = &sets[split];
    return LS_OK;
}
LS_MODULE_EXPORT const ls_model_module *lockstep_module(void)
{
    static const ls_model_module m = { LS_MODULE_DEFAULTS, .name = "m", .version = "0", .build = build, .data = data };
    return &m;
}
END
"$cc" -shared -fPIC -Wall -Wextra -Werror -I"$root/include" model.c -o model.so || bad "cc"

# An epoch is 6 steps, an evaluation 50 batches of one rank.
cat >recipe.yaml <<'END'
model: {type: module, path: ./model.so}
data: {type: module}
train: {epochs: 4, global_batch: 8, micro_batch: 4}
optimizer: {type: adam, lr: 3e-2}
schedule: {type: cosine, warmup_steps: 4}
threads: 1
END
# rows NAME: what its metrics.jsonl and metrics.csv say, without times, attempts and saves
rows() {
    grep -vE '"kind":"(checkpoint|restart|memory)"' "runs/$1/metrics.jsonl" | sed -E 's/"(seconds|data_seconds|memory[a-z_]*|cpu|load|gflops|mfu|attempt)":[^,}]*,?//g'
    cut -d, -f1-7 "runs/$1/metrics.csv"
}
# point NAME: what its last trainer.json says, without times
point() { sed -E 's/"(epoch_seconds)":[^,}]*,?//g; s/"(mesh|recipe)":.*//; s/"world":[0-9]+,//' "runs/$1/checkpoints/latest/trainer.json"; }
# alike NAME [OF]: it ended as the run OF, which nothing disturbed
alike() {
    local of=${2-whole} file
    for file in model.safetensors optimizer.safetensors; do
        cmp "runs/$of/checkpoints/latest/$file" "runs/$1/checkpoints/latest/$file" || bad "$what: another $file"
    done
    diff <(rows "$of") <(rows "$1") || bad "$what: other rows"
    diff <(point "$of") <(point "$1") || bad "$what: another trainer.json"
    diff <(ls "runs/$of/checkpoints") <(ls "runs/$1/checkpoints") || bad "$what: other checkpoints"
    [ "$(readlink "runs/$of/checkpoints/best")" = "$(readlink "runs/$1/checkpoints/best")" ] || bad "$what: another best"
    has "runs/$1/result.json" '"state":"finished"'
    local result='"(step|epoch|loss|lr|best|early_stopping|best_checkpoint|ended)":(\{[^}]*\}|"[^"]*"|[^,}]*)'
    diff <(grep -oE "$result" "runs/$of/result.json") <(sed 's/"restarts":.*"error"/"error"/' "runs/$1/result.json" | grep -oE "$result") || bad "$what: another result.json"
}
# stopped STEP NAME WORDS...: a start of the run that ends in the evaluation after this step
stopped() {
    local step=$1 name=$2; shift 2
    local evaluations; evaluations=$(grep -c '"kind":"eval"' "runs/$name/metrics.jsonl" 2>/dev/null)
    try 75 train recipe.yaml --set run.name="$name" "$@"
    has err "^stopped in the evaluation after step $step of [0-9]+ on request; everything is saved in runs/$name/checkpoints/latest: start it again to continue$"
    has "runs/$name/result.json" "\"state\":\"stopped\".*\"step\":$step,"
    [ "$(readlink "runs/$name/checkpoints/latest")" = "step-$(printf %08d "$step")" ] || bad "$what: latest is $(readlink "runs/$name/checkpoints/latest")"
    grep -qE "\"kind\":\"(eval|epoch)\",.*\"step\":$step," "runs/$name/metrics.jsonl" && bad "$what: the end of the epoch has a row"
    try 0 inspect "runs/$name/checkpoints/latest" --verify
}
continued() { # STEP NAME WORDS...
    local step=$1 name=$2; shift 2
    try 0 train recipe.yaml --set run.name="$name" "$@"
    has err "^continues after step $step of [0-9]+, with the evaluation, from "; once err "^(evaluation|first step) after [0-9.]+ ms"; has err "^evaluation after"
}

try 0 train recipe.yaml --set run.name=whole
# ---- within a batch: behind the second epoch, behind the last one, before the first batch
READS=reads STOP_AT=1:100 stopped 12 middle
[ "$(stat -c %s reads)" -lt 380 ] || bad "$what: $(stat -c %s reads) of 400 samples were read"
has runs/middle/checkpoints/latest/trainer.json '"next_epoch":1,"next_epoch_step":6,"epoch_samples":48,'
continued 12 middle; alike middle
STOP_AT=3:190 stopped 24 end; continued 24 end; alike end
STOP_AT=0:0 stopped 6 first; continued 6 first; alike first
# ---- again in the evaluation that the next start begins with, and in the following one
place() { stat -c %i "runs/$1/checkpoints/latest/"; }
STOP_AT=1:20 stopped 12 twice; first=$(place twice)
STOP_AT=0:60 stopped 12 twice
[ "$(place twice)" = "$first" ] || bad "$what: the same checkpoint was saved again"
STOP_AT=1:40 stopped 18 twice; continued 18 twice; alike twice
# ---- killed there: the checkpoint is as it was
STOP_AT=1:20 stopped 12 killed
KILL=1 STOP_AT=0:60 try 137 train recipe.yaml --set run.name=killed; continued 12 killed; alike killed
STOP_AT=1:20 stopped 12 restarted
KILL=1 STOP_AT=0:60 try 1 train recipe.yaml --set run.name=restarted --set failure.max_failures=1
has err "restart 1 of 1 in 0.5 s from step 12"; times 2 err "continues after step 12 of 24, with the evaluation"
has err "rank 0: killed by signal 9 \(SIGKILL\); it last did: step 12, evaluation"
continued 12 restarted; alike restarted

# ---- what belongs to the end of an epoch: averaged weights, early stopping, the best ones, an epoch that train.steps cuts short, a checkpoint in the same step
# both NAME STEP STOP_AT WORDS...: undisturbed, and stopped once
both() {
    local name=$1 step=$2 at=$3; shift 3
    try 0 train recipe.yaml --set run.name="whole-$name" "$@"
    STOP_AT=$at stopped "$step" "$name" "$@"
    continued "$step" "$name" "$@"; alike "$name" "whole-$name"
}
both ema 12 1:100 --set optimizer.ema_decay=0.5 --set eval.ema=true
both cut 21 3:100 --set train.steps=21
both early 12 1:100 --set train.early_stopping.patience=1 --set train.early_stopping.min_delta=2
both best 18 2:100 --set checkpoint.keep=1 --set checkpoint.keep_best=3 --set optimizer.lr=0.3
both one 12 1:100 --set checkpoint.keep=1
both steps 12 1:100 --set checkpoint.every_epochs=0 --set checkpoint.every_steps=4 --set checkpoint.best.metric=train_loss
both async 12 1:100 --set checkpoint.async=true --set checkpoint.every_steps=5
both seldom 12 0:100 --set eval.every_epochs=2

# ---- two ranks, of which one is asked: both end before the same batch; the next start has another number of ranks
for rank in 0 1; do
    rm -f reads
    READS=reads SLOW=0.005 STOP_RANK=$rank STOP_AT=1:$((80 + rank)) stopped 12 ranks$rank --workers 2
    [ "$(stat -c %s reads)" -lt 340 ] || bad "$what: $(stat -c %s reads) of 400 samples were read" # the loaders read some batches ahead
    continued 12 ranks$rank --workers $((2 - rank)); alike ranks$rank
done
SLOW=0.005 STOP_RANK=1 STOP_AT=0:21 stopped 6 ema2 --workers 2 --set optimizer.ema_decay=0.5 --set eval.ema=true --set parallel.data=ddp
continued 6 ema2 --workers 2 --set optimizer.ema_decay=0.5 --set eval.ema=true --set parallel.data=ddp; alike ema2 whole-ema
# a rank that is killed in the evaluation that the attempt begins with: started again by the parent, and stopped in another one
STOP_AT=1:20 stopped 12 parent
KILL=1 SLOW=0.005 STOP_RANK=1 STOP_AT=0:101 try 1 train recipe.yaml --set run.name=parent --workers 2
has err "rank 1: killed by signal 9"; has runs/parent/result.json '"state":"failed"'
continued 12 parent --workers 2; alike parent

# ---- another run that begins there; a longer one; one that keeps nothing
STOP_AT=1:100 stopped 12 begun
try 0 train recipe.yaml --set run.name=fork --resume runs/begun/checkpoints/latest; has err "after step 12 of 24, with the evaluation"
rows() { grep -E '"kind":"(eval|epoch|step)"' "runs/$1/metrics.jsonl" | sed -E 's/"(seconds|data_seconds|memory[a-z_]*|cpu|load|gflops|mfu|attempt)":[^,}]*,?//g' | awk -F'"step":' '$2 + 0 >= 12 && !/"kind":"step","step":12,/'; }
alike fork
STOP_AT=1:100 try 75 train recipe.yaml --set run.name=fork2 --resume runs/begun/checkpoints/latest
STOP_AT=0:100 try 75 train recipe.yaml --set run.name=fork3 --resume runs/begun/checkpoints/latest # its first checkpoint
try 0 train recipe.yaml --set run.name=fork3; alike fork3
STOP_AT=3:100 stopped 24 longer; try 0 train recipe.yaml --set run.name=longer --set train.epochs=5 --set schedule.total_steps=24 --allow-change
times 5 runs/longer/metrics.jsonl '"kind":"epoch"'; times 5 runs/longer/metrics.jsonl '"kind":"eval"'
STOP_AT=1:100 try 75 train recipe.yaml --set run.name=unsaved --set checkpoint.every_epochs=-1
has err "^stopped in the evaluation after step 12 of 24 on request; nothing is saved, because checkpoint.every_epochs is -1"
# asked in the last step, without an evaluation: it ends; but reading the checkpoint for an export takes time, and is left to the next start
for workers in 1 2; do
    export=(--workers $workers --set train.steps=1 --set eval.every_epochs=-1 --set checkpoint.best.metric=train_loss)
    STOP_TRAIN=1 try 0 train recipe.yaml --set run.name=last$workers "${export[@]}"; has runs/last$workers/result.json '"state":"finished"'
    STOP_TRAIN=1 try 75 train recipe.yaml --set run.name=export$workers "${export[@]}" --set checkpoint.export=whole.safetensors
    has runs/export$workers/result.json '"state":"stopped"'; [ ! -e runs/export$workers/whole.safetensors ] || bad "$what: was not asked in time"
    try 0 train recipe.yaml --set run.name=export$workers "${export[@]}" --set checkpoint.export=whole.safetensors
    cmp runs/export$workers/whole.safetensors runs/last$workers/checkpoints/latest/model.safetensors || bad "$what: another export"
done
# an attempt makes its evaluation, however little time it has
STOP_AT=1:100 stopped 12 hurry
try 75 train recipe.yaml --set run.name=hurry --set run.time_limit=0.001; has err "stopped after step 13 of 24 .* after the end of run.time_limit"
once runs/hurry/metrics.jsonl '"kind":"eval",.*"step":12,'
try 0 runs --metrics runs/hurry; times 2 out '^ *[01] '

# the end of a run that train.steps cuts short is still to come where an epoch has other steps now, however often it is stopped
STOP_AT=3:100 stopped 21 resized --set train.steps=21
STOP_AT=0:100 stopped 21 resized --set train.steps=21 --set train.global_batch=4 --allow-change
try 0 train recipe.yaml --set run.name=resized --set train.steps=21 --set train.global_batch=4 --allow-change
once runs/resized/metrics.jsonl '"kind":"eval",.*"step":21,'; once runs/resized/metrics.jsonl '"kind":"epoch",.*"step":21,'

# ---- in a bucket the checkpoint is never taken away to be replaced by an equal one: a machine that begins anew always finds it
if "$lockstep" doctor --no-measure --quiet --need curl >out 2>err; then
    bucket_server "$server"
    spot=(train recipe.yaml --set run.name=spot --set run.storage=s3://bucket/runs --set checkpoint.keep=1)
    for cut in 1:20 0:60 1:40; do LOCKSTEP_CACHE=$work/machine-$cut STOP_AT=$cut try 75 "${spot[@]}"; done
    times 0 requests "^DELETE .*/step-00000012/manifest.json"
    LOCKSTEP_CACHE=$work/machine-last try 0 "${spot[@]}"; has err "^continues after step 18 of 24, with the evaluation"
    cmp runs/whole/checkpoints/latest/model.safetensors machine-last/storage/bucket/runs/spot/checkpoints/latest/model.safetensors || bad "$what: another model"
else
    left_out "buckets (Debian: libcurl4-openssl-dev)"
fi

# ---- eval, its ranks, and predict
try 0 train recipe.yaml --set run.name=whole
STOP_AT=0:100 try 75 eval runs/whole --module ./model.so; has err "^stopped after [0-9]+ of 200 samples of an evaluation$"; [ ! -s out ] || bad "$what: prints a result"
SLOW=0.005 STOP_RANK=1 STOP_AT=0:45 try 75 eval runs/whole --module ./model.so --workers 2; has err "stopped after [0-9]+ of 200 samples of an evaluation$"; times 0 err '^error'
STOP_AT=0:100 try 75 predict runs/whole --module ./model.so --out y.csv
has err "^stopped after [0-9]+ of 200 samples; y.csv is not written$"; [ ! -e y.csv ] || bad "$what: writes y.csv"
# ---- evaluations of eval.every_steps, within epochs: a stop in one, before the first batch or in a later one, and the next start begins with it
every="--set eval.every_steps=4 --set checkpoint.every_steps=2 --set checkpoint.keep=20"
try 0 train recipe.yaml --set run.name=within $every
[ "$(sed -nE 's/.*"kind":"eval","step":([0-9]+),.*/\1/p' runs/within/metrics.jsonl | tr '\n' ' ')" = "4 6 8 12 16 18 20 24 " ] || bad "$what: evaluated after other steps: $(rows within)"
diff <(rows whole | grep -v '"kind":"eval"') <(rows within | grep -v '"kind":"eval"') || bad "$what: evaluations change the training"
for at in 0:0 0:100 4:60; do
    STOP_AT=$at try 75 train recipe.yaml --set run.name="at$at" $every
    try 0 train recipe.yaml --set run.name="at$at" $every; alike "at$at" within
done
STOP_AT=3:45 STOP_RANK=1 SLOW=0.002 try 75 train recipe.yaml --set run.name=ranks $every --workers 2
try 0 train recipe.yaml --set run.name=ranks $every; alike ranks within
KILL=1 STOP_AT=2:60 try 137 train recipe.yaml --set run.name=killed-within $every
try 0 train recipe.yaml --set run.name=killed-within $every; cmp runs/within/checkpoints/latest/model.safetensors runs/killed-within/checkpoints/latest/model.safetensors || bad "$what: other weights"

finish
