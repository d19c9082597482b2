#!/bin/sh
# command.sh COMMAND - the built command as a user types it: exit statuses, where results and messages go, what they say.
set -u
lockstep=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-cli-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
LOCKSTEP_CACHE=$work/cache
export LOCKSTEP_CACHE
failures=0

# try STATUS ARGS...: runs the command, keeps ./out and ./err
try() {
    want=$1; shift
    "$lockstep" "$@" >out 2>err </dev/null
    got=$?
    what=$*
    [ $got -eq "$want" ] || { echo "lockstep $what: exit status $got instead of $want"; cat err; failures=$((failures + 1)); }
}
has() { grep -qF -- "$2" "$1" || { echo "lockstep $what: '$2' is not in $1:"; cat "$1"; failures=$((failures + 1)); }; }
is_empty() { [ ! -s "$1" ] || { echo "lockstep $what: $1 should be empty:"; cat "$1"; failures=$((failures + 1)); }; }

try 0 --version; has out "lockstep "; is_empty err
try 0 --help; has out "usage: lockstep VERB"; is_empty err
try 2; has err "usage: lockstep VERB"; is_empty out
try 2 tarin; has err "did you mean \`lockstep train\`?"; is_empty out
try 2 --versoin; has err "no option --versoin"
for verb in train eval predict plan explain export inspect recipe runs get doctor; do
    try 0 $verb --help; has out "usage: lockstep $verb"; has out "Examples:"; is_empty err
done
# examples of runs are right but for the run, which is not there
for verb in predict eval export; do
    try 0 $verb --help
    sed -n '/^Examples:/,/^$/s/^  lockstep \(.* runs\/\)/\1/p' out >examples
    [ -s examples ] || { echo "$verb has no examples of runs"; failures=$((failures + 1)); }
    while read -r example; do
        eval "try 2 ${example%%#*}"; has err ": no such "
    done <examples
done

try 0 recipe; has out vit-fashion-mnist; has out mlp-mnist
try 0 recipe vit-fashion-mnist --set train.epochs=3 --workers 1; is_empty err
has out "epochs: 3                                   # --set"
has out "global_batch: 128                           # bundled vit-fashion-mnist:"
has out "time_limit: 0                               # default"
cp out resolved.yaml
try 0 recipe resolved.yaml; has out "epochs: 3"
try 0 recipe mlp-mnist --source; has out "type: mlp"
try 0 recipe --reference; has out "# Recipe reference"
try 2 recipe nothing.yaml; has err "error: nothing.yaml: no such file"; is_empty out
printf 'model: {type: vit}\ndata: {type: mnist}\ntrain:\n  epochs: 2\n  global_batchs: 3\n' >wrong.yaml
try 2 train wrong.yaml; has err "error: wrong.yaml:5: train.global_batchs: unknown key; did you mean train.global_batch?"; is_empty out
[ "$(wc -l <err)" -eq 1 ] || { echo "more than one message:"; cat err; failures=$((failures + 1)); }
try 2 train vit-fashion-mnist --set model.heads=3; has err "3 heads do not divide hidden_size 128"
try 2 plan mlp-mnist --workers 2 --set parallel.mesh="{dp: auto, tp: 2}"; has err "has no such layer to split over the 2 ranks of axis tp"
try 2 train vit-fashion-mnist --resume checkpoint; has err "--resume checkpoint: this is not a checkpoint"
try 2 train vit-fashion-mnist --profile=9:3; has err "FIRST:LAST"
try 2 train vit-fashion-mnist --log xml; has err "--log xml: text or json is needed"
try 2 predict run --out picture.gif; has err ".svg or .png"
try 2 predict run --show --json; has err "--show and --json: give one of them"
try 0 explain vit-fashion-mnist --workers 2 --set parallel.mesh="{dp: auto, tp: 2}" --param encoder.layers.encoder_layer_0.self_attention.in_proj_weight
has out "block 0 of 2 of each of 3 parts along dimension 0 (axis tp)"
try 2 explain vit-fashion-mnist --rank 1; has err "the ranks are 0 to 0"
try 2 export some/run --to x.pt; has err "some/run: no such run, checkpoint or weight file"
try 2 export some/run; has err "--to FILE.safetensors"
try 2 export some/run --to x.onnx; has err "must end in .safetensors, .pt, .gguf, .dcp"
try 2 export some/run --to x.pt --dtype i32; has err "f32, bf16 or f16"
[ ! -e runs ] || { echo "a refused recipe left a run directory"; failures=$((failures + 1)); }

# a small run on the built-in set, from start to finish
cat >tiny.yaml <<END
model: {type: mlp, hidden: [8]}
data: {type: shapes}
train: {epochs: 1, steps: 3, global_batch: 64}
threads: 1
END
try 0 train tiny.yaml --dry-run; has err "dry run"; is_empty out
[ ! -e runs ] || { echo "a dry run wrote something"; failures=$((failures + 1)); }
try 0 train tiny.yaml; has out "epoch  step  train loss"; has out "BUILT-IN shapes, not real data"; has err "best   eval_loss"
has runs/tiny/log/rank-0.log "data   shapes: "; has runs/tiny/log/rank-0.log "model  mlp "
for file in recipe.yaml metrics.jsonl metrics.csv result.json report.html log/rank-0.log checkpoints/latest/model.safetensors; do
    [ -s runs/tiny/$file ] || { echo "runs/tiny/$file is missing or empty"; failures=$((failures + 1)); }
done
[ "$(grep -c '"kind":"step"' runs/tiny/metrics.jsonl)" -eq 3 ] || { echo "metrics.jsonl has not 3 steps"; failures=$((failures + 1)); }
has runs/tiny/result.json '"state":"finished"'; has runs/tiny/report.html '>finished<'
has runs/tiny/step.html 'times measured: the median of 2 runs'
[ "$(ls runs/tiny/log)" = "rank-0.heartbeat.json
rank-0.log" ] || { echo "files of a profile: $(ls runs/tiny/log)"; failures=$((failures + 1)); }
cp runs/tiny/result.json before.json
try 0 train tiny.yaml; has err "nothing to do"
cmp -s before.json runs/tiny/result.json || { echo "training a finished run changed its result.json"; failures=$((failures + 1)); }
try 2 train tiny.yaml --resume never; has err "--resume never"
try 2 train tiny.yaml --set train.global_batch=32; has err "train.global_batch: 32 here, 64 there"
cmp -s before.json runs/tiny/result.json || { echo "refusing to continue changed result.json"; failures=$((failures + 1)); }
try 0 runs; has out "tiny  finished     3"; has out "BUILT-IN shapes, not real data"
try 0 runs --metrics tiny; has out "BUILT-IN shapes, not real data"; has out "epoch  step  train loss"; has out "    0     3  "; has out "best"; is_empty err
try 0 runs --metrics runs/tiny --csv; cmp -s out runs/tiny/metrics.csv || { echo "the epochs as CSV are not metrics.csv"; failures=$((failures + 1)); }
try 0 runs --metrics tiny --steps --json; [ "$(grep -o '"kind":"step"' out | wc -l)" -eq 3 ] || { echo "not 3 steps:"; cat out; failures=$((failures + 1)); }
try 2 runs --metrics nothing; has err "nothing: no such run"
try 2 runs --steps; has err "--steps needs --metrics RUN"

# a checkpoint is evaluated on the data of its run
{ printf '\000\000\010\003\000\000\000\100\000\000\000\002\000\000\000\002'; head -c 256 /dev/zero; } >images
{ printf '\000\000\010\001\000\000\000\100'; head -c 64 /dev/zero; } >labels
cat >idx.yaml <<END
model: {type: mlp, image_size: 2, hidden: [], classes: 2}
data: {type: idx, train_images: images, train_labels: labels, eval_images: images, eval_labels: labels}
train: {epochs: 1, global_batch: 32}
threads: 1
END
try 0 train idx.yaml; ! grep -q BUILT-IN out || { echo "given data are called built-in"; failures=$((failures + 1)); }
try 0 eval runs/idx/checkpoints/latest; has out " of 64)"
# wrong usage: status 2 and one message
wrong() { local message=$1; shift; try 2 "$@"; has err "$message"; [ "$(grep -c '^error: ' err)" = 1 ] || { echo "$*: not one message"; cat err; failures=$((failures + 1)); }; }
wrong "--set model.in_channels: idx" train idx.yaml --set model.in_channels=3 --set run.name=other
wrong "data.train_images: nothing.idx: no such file" train idx.yaml --set data.train_images=nothing.idx --set run.name=other
wrong "there is no run yet" eval idx.yaml --set run.name=other
wrong "nothing.png: no such image file" predict runs/idx nothing.png
wrong "--ranks-per-host 3 does not divide" plan idx.yaml --workers 2 --ranks-per-host 3
wrong "--network: 3: write latency and bandwidth" plan idx.yaml --network 3
wrong "--count 0: a whole number from 1 up is needed" predict runs/idx --count 0
mkdir none; wrong "none: no such run" runs --metrics none; rmdir none
# variables of launchers that started nothing of the kind
place() { local message=$1; shift; for place in "$@"; do export "${place?}"; done; wrong "$message" train idx.yaml --set run.name=other; for place in "$@"; do unset "${place%%=*}"; done; }
place "LOCKSTEP_RANK set, but not LOCKSTEP_RANKS, LOCKSTEP_CONTROL_FD" LOCKSTEP_RANK=1
place "LOCKSTEP_RANK, LOCKSTEP_RANKS set, but not LOCKSTEP_CONTROL_FD" LOCKSTEP_RANK=1 LOCKSTEP_RANKS=2
place "LOCKSTEP_CONTROL_FD=99 is not an open file" LOCKSTEP_RANK=1 LOCKSTEP_RANKS=2 LOCKSTEP_CONTROL_FD=99
place "LOCKSTEP_CONTROL_FD=2" LOCKSTEP_RANK=1 LOCKSTEP_RANKS=2 LOCKSTEP_CONTROL_FD=2
place "lockstep train RECIPE --hosts A:2,B:2, or lockstep launch --hosts A:2,B:2 PROGRAM" RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2
place "srun started 2 tasks that cannot reach each other" SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2
rm -r runs/idx
[ ! -e runs/other ] || { echo "a refused run left a folder"; failures=$((failures + 1)); }

# no checkpoint at all
try 0 train tiny.yaml --set run.name=unsaved --set checkpoint.every_epochs=-1
[ -z "$(find runs/unsaved -name 'step-*' -o -name latest -o -name best)" ] || { echo "every_epochs: -1 wrote a checkpoint"; failures=$((failures + 1)); }
grep -q '"state":"finished"' runs/unsaved/result.json || { echo "unsaved is not finished"; failures=$((failures + 1)); }
! grep -q checkpoints/best err || { echo "a best checkpoint that is not there"; failures=$((failures + 1)); }
try 1 eval runs/unsaved; has err "no checkpoint"
try 0 train tiny.yaml --set run.name=unsaved --set checkpoint.every_epochs=-1; has err "nothing to do"
rm -r runs/unsaved

# its weights for others
model=runs/tiny/checkpoints/latest/model.safetensors
try 0 export runs/tiny --to tiny.safetensors; has out "tiny.safetensors: 4 tensors"; is_empty err
cmp -s tiny.safetensors $model || { echo "an export as it is differs from the checkpoint's file"; failures=$((failures + 1)); }
try 0 export runs/tiny/checkpoints/latest --to tiny.pt; has out "tiny.pt: 4 tensors"; is_empty err
try 0 export tiny.pt --to back.safetensors
cp tiny.pt old.pt
try 2 export runs/tiny --to tiny.pt --dtype bf16; has err "error: --to tiny.pt: already there; --force replaces it"
cmp tiny.pt old.pt || { echo "a refused export changed its target"; failures=$((failures + 1)); }
cmp -s back.safetensors $model || { echo "through a .pt file the weights changed"; failures=$((failures + 1)); }
try 0 export runs/tiny --to tiny.pt --dtype bf16 --force
try 0 inspect tiny.pt --verify; has out "every byte of 9 entries"; has out "BF16"
try 2 inspect tiny.safetensors --verify; has err "no checksums"
try 0 train tiny.yaml --set run.name=again --set model.init=tiny.pt -q; is_empty out; is_empty err
# weights to begin with that are nowhere: every verb says where it looked; a run that has begun needs them no more
mv tiny.pt away.pt
mkdir -p data cache/data
data=${LOCKSTEP_DATA-}
export LOCKSTEP_DATA=data
for verb in train "train --dry-run" plan explain inspect recipe; do
    try 2 $verb tiny.yaml --set model.init=tiny.pt --set run.name=wrong
    has err "error: --set model.init: tiny.pt: no such file or folder: looked in this folder, in LOCKSTEP_DATA (data) and in $work/cache/data; "
done
# what is there but holds no weights is refused as early, in one way; config.json says what a plan needs, but training needs the weights
mkdir -p bare; touch bare/mine; echo "no weights" >bare.txt
for verb in train "train --dry-run" "train --workers 2" plan explain inspect recipe; do
    try 1 $verb tiny.yaml --set model.init=bare --set run.name=wrong
    has err "error: --set model.init: bare: no weights in this folder, which has mine; name a weight file, or a folder with one (read are model.safetensors, "
    try 1 $verb tiny.yaml --set model.init=bare.txt --set run.name=wrong
    has err "error: --set model.init: bare.txt: "
done
echo '{}' >bare/config.json
for verb in plan explain inspect recipe; do try 0 $verb tiny.yaml --set model.init=bare --set run.name=wrong; done
for verb in train "train --dry-run" "train --workers 2"; do
    try 1 $verb tiny.yaml --set model.init=bare --set run.name=wrong; has err "error: --set model.init: bare: no weights in this folder, which has config.json, mine; "
done
[ ! -e runs/wrong ] || { echo "a refused run left a folder"; failures=$((failures + 1)); }
for verb in eval predict inspect; do try 0 $verb runs/again; done
mv bare tiny.pt; for verb in eval predict inspect; do try 0 $verb runs/again; done; rm -r tiny.pt bare.txt
cp away.pt data/tiny.pt
try 0 plan tiny.yaml --set model.init=tiny.pt
mv data/tiny.pt cache/data
try 0 train tiny.yaml --set model.init=tiny.pt --set run.name=cached -q; is_empty err
[ -n "$data" ] && LOCKSTEP_DATA=$data || unset LOCKSTEP_DATA
mv away.pt tiny.pt
try 0 export runs/tiny --to dcp --format dcp --optimizer; has out "dcp: 4 tensors, a DCP directory"; is_empty err
try 0 export dcp --to back.safetensors --force
cmp -s back.safetensors $model || { echo "through a DCP directory the weights changed"; failures=$((failures + 1)); }
try 0 train tiny.yaml --set run.name=third --set model.init=dcp -q; is_empty out; is_empty err
try 2 export runs/tiny --to dcp --format dcp; has err "error: --to dcp: already there; --force replaces it"
try 0 export runs/tiny --to dcp --format dcp --force; try 0 inspect dcp; has out "elements in 4 tensors"
[ "$(ls -A | grep -c unfinished)" = 0 ] || { echo "the replaced folder is still there"; failures=$((failures + 1)); }
try 0 export dcp --to dcp --format dcp --force; try 0 inspect dcp; has out "elements in 4 tensors" # onto itself
mkdir kept; touch kept/mine; ln -s kept linked
for folder in kept/ linked/ runs/tiny/; do
    try 2 export runs/tiny --to $folder --format dcp; has err "already there; --force replaces it"
    try 2 export runs/tiny --to $folder --format dcp --force; has err "${folder}: only a DCP directory (.metadata, .distcp"
    try 2 export runs/tiny --to $folder --force; has err "${folder%/}: only a folder that holds a model and nothing else is replaced, and it has "
done
touch dcp/mine; try 2 export runs/tiny --to dcp --format dcp --force; has err "only a DCP directory"; rm dcp/mine
[ -e kept/mine ] && [ -e runs/tiny/result.json ] || { echo "an export deleted what was not its own"; failures=$((failures + 1)); }
try 2 export runs/tiny --to tiny.pt --optimizer; has err "--optimizer needs --to FILE.dcp or --format dcp, not --to tiny.pt"
try 2 export tiny.pt --to other --format dcp --optimizer; has err "neither a run, a checkpoint nor a DCP directory"
try 2 inspect dcp --verify; has err "no checksums"
if [ -c /dev/full ]; then
    ln -s /dev/full full.pt
    try 1 export runs/tiny --to full.pt; has err "error: full.pt: cannot write: No space left on device"
    [ "$(wc -l <err)" -eq 1 ] || { echo "more than one message:"; cat err; failures=$((failures + 1)); }
fi
# control characters of names and errors are shown, not sent to the terminal: a tensor called a ESC[2J c LF d C1, an error and a restart of a run
named='{"a\u001b[2J.c\nd\u009b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
{ printf "\\$(printf %03o ${#named})\0\0\0\0\0\0\0"; printf '%s\0\0\0\0' "$named"; } >named.safetensors
raw() { LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]\|\302[\200-\237]')" out err && { echo "$what: control characters:"; cat -v out err; failures=$((failures + 1)); }; }
try 0 inspect named.safetensors; has out 'a\x1b[2J'; has out 'c\nd\x9b'; raw
try 0 inspect named.safetensors --json; raw
try 1 train tiny.yaml --set run.name=named --set model.init=named.safetensors; raw
cp -r runs/tiny runs/odd
sed -i 's/"error":null/"error":"one\\u001b[2Jtwo"/; s/"state":"finished"/"state":"failed"/' runs/odd/result.json
printf '%s\n' '{"kind":"restart","step":1,"steps_lost":0,"workers":1,"cause":"one\u001b[2Jtwo","pause":1,"attempt":1}' >>runs/odd/metrics.jsonl
try 0 runs; has out 'one\x1b[2Jtwo'; raw
try 0 runs --metrics odd; has out 'one\x1b[2Jtwo'; raw
try 0 runs --json; raw
"$lockstep" "$(printf 'bad\033[2J')" 2>err >out; what="an unknown verb"; has err 'bad\x1b[2J'; raw
rm -r runs/odd named.safetensors
printf x | dd of=$model bs=1 seek=200 conv=notrunc 2>/dev/null
try 1 export runs/tiny --to tiny.safetensors --force; has err "damaged"
cmp -s tiny.safetensors back.safetensors || { echo "a refused export changed its target"; failures=$((failures + 1)); }

rm -r runs

try 0 runs; has out "no runs in runs"
try 0 runs --json; has out "[]"
try 2 runs nowhere; has err "nowhere: no such folder"
mkdir -p runs/a; : >runs/a/recipe.yaml
try 0 runs; has out "a    broken"
try 2 recipe nothing.yaml --log json; has err '"level":"error"'
try 2 recipe wrong.yaml -v; has err "passed on by"

try 0 doctor --no-measure; has out "kernels"; has out "2 ranks  "; has out "launcher      none"; has out "shared memory"; has out "zlib"; has out "cuda          "; is_empty err
# its parts: as JSON, for scripts, and never "nothing is missing" where one cannot be used
try 0 doctor --no-measure --json; has out '"Parts":{"curl":{"built":'; has out '"notes":['; is_empty err
export LOCKSTEP_MPI_MODULE=/nowhere
try 0 doctor --no-measure; has out "Not usable here: "
! grep "Nothing is missing" out || { echo "doctor: nothing is missing, and mpi is not usable"; failures=$((failures + 1)); }
try 1 doctor --no-measure --quiet --need mpi; is_empty out; has err 'error: --need mpi: mpi: '; has err ' (ranks on several hosts with Open MPI): '
try 1 doctor --no-measure --json --need mpi; has out '"usable":false'
unset LOCKSTEP_MPI_MODULE
try 2 doctor --no-measure --need mpl; has err '--need: there is no part "mpl" (did you mean mpi?); parts are curl, '
try 2 doctor --no-measure --need mpi,; has err 'there is no part ""'
if [ -c /dev/full ]; then
    "$lockstep" recipe vit-fashion-mnist >/dev/full 2>err; got=$?; what="recipe >/dev/full"
    [ $got -eq 1 ] || { echo "a full disk: exit status $got"; failures=$((failures + 1)); }
    has err "error: stdout: No space left on device"
fi
# as tasks of mpirun, srun or torchrun: the first one does what needs one process, and the others say so and end; of `get` the first of each host
task() { # NUMBER OF-HOST STATUS ARGS...
    number=$1 local=$2; shift 2
    OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=$number OMPI_COMM_WORLD_LOCAL_RANK=$local try "$@"
}
other() { task "$@"; is_empty out; has err "$4: the first task"; has err "this is task $1. For other work in each task, start each by itself (srun -n 1, mpirun -n 1)"; }
for words in "plan none" "explain none" "export none --to none.pt" "inspect none" "recipe none" "data none" "new new" "watch none" "chat none"; do
    other 1 1 0 $words
    task 0 0 2 ${words%% *} --no-such-option; has err "has no option --no-such-option"
done
other 1 1 0 runs
task 2 0 2 get --no-such-option; other 3 1 0 get none/none; has err "the first task of each host does it"
other 1 1 0 predict tiny.safetensors
task 0 0 2 launch --workers 2 true; has err "launch starts the ranks itself: call it once, without mpirun, srun or torchrun"
RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_PORT=1 try 0 recipe mlp-mnist; is_empty out
SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 try 0 recipe mlp-mnist; is_empty out

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
echo "all as it should be"
