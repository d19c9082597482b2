#!/bin/bash
# kill_test.sh COMMAND [ROUNDS [SEED]] - a small ViT is killed at random moments, start and saves included: a rank or the parent by SIGKILL, or stopped by
# SIGTERM; then it goes on, by itself or started again, on 1, 2 or 4 ranks, with checkpoints written at once or in the background. After every round its last
# checkpoint has the bytes of the run that nothing disturbed. `make test` runs 20 rounds. The seed, printed first, repeats what is drawn, not the timing.
set -u
lockstep=$1 rounds=${2:-20} seed=${3:-$(date +%s)}
RANDOM=$seed
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-kill-XXXXXX")
cd "$work" || exit 1
trap 'cd /; rm -rf "$work"' EXIT
export LOCKSTEP_CACHE=$work/cache
unset LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_FAULT LOCKSTEP_FAIL
echo "$rounds rounds, seed $seed"
kills=0 again=0 ASYNC=(false true)

fails() { echo "kill_test.sh: seed $seed, round $round: $*"; cat err; exit 1; }

# Noise: 256 images, an epoch is 8 steps.
{ printf '\0\0\010\003\0\0\001\0\0\0\0\034\0\0\0\034'; head -c 200704 /dev/urandom; } >images
{ printf '\0\0\010\001\0\0\001\0'; head -c 100000 /dev/urandom | tr -cd '\000-\011' | head -c 256; } >labels
cat >small.yaml <<END
model: {type: vit, layers: 2, heads: 2, hidden_size: 32, mlp_size: 64}
data: {type: idx, train_images: images, train_labels: labels, eval_images: images, eval_labels: labels}
train: {epochs: 1000000, steps: 120, global_batch: 32, micro_batch: 8}
schedule: {type: cosine, warmup_steps: 10}
eval: {every_epochs: 1}
checkpoint: {every_epochs: 0, every_steps: 7}
threads: 1
END
round=0
begin=$(date +%s%N)
"$lockstep" train small.yaml --set run.name=whole --workers 2 >out 2>err </dev/null || fails "the run that nothing disturbs fails"
span=$((($(date +%s%N) - begin) / 1000000)) # milliseconds

held() { local file; file=$(stat -c %i "runs/$1/lock.txt" 2>/dev/null) && grep -q ":$file " /proc/locks; }

# One start of run $1, with at most one blow. Returns its exit status.
start() {
    local workers=$((1 << RANDOM / 7 % 3)) blow=$((RANDOM / 7 % 5)) async=$((RANDOM / 7 % 2)) most=0 fault= status victims
    [ $blow = 2 ] && most=1
    [ $blow = 4 ] && fault=file@$((RANDOM % 600)):kill:rank=$((workers > 1 ? RANDOM / 7 % workers : -1)) # within a save, as a rule
    [ "$2" = calm ] && blow=none fault=
    LOCKSTEP_FAIL=$fault "$lockstep" train small.yaml --set run.name="$1" --workers $workers --set failure.max_failures=$most \
        --set checkpoint.async=${ASYNC[async]} >out 2>err </dev/null &
    local parent=$!
    [ -z "$fault" ] || kills=$((kills + 1))
    if [ $blow != none ] && [ $blow != 4 ]; then
        sleep "$(printf '%d.%03d' $((RANDOM * span / 32768 / 1000)) $((RANDOM * span / 32768 % 1000)))"
        victims=("$parent" $(cat "/proc/$parent/task/$parent/children" 2>/dev/null))
        [ ${#victims[@]} -gt $workers ] || victims=("$parent") workers=1 # alone, or not so far
        case $blow in
        0) kill -TERM $parent 2>/dev/null ;;
        1) kill -KILL $parent 2>/dev/null ;;
        *) kill -KILL "${victims[-1 - RANDOM / 7 % workers]}" 2>/dev/null ;;
        esac
        kills=$((kills + 1))
    fi
    wait $parent 2>/dev/null; status=$?
    grep -q "; restart " err && again=$((again + 1))
    while [ $status -eq 137 ] && held "$1"; do sleep 0.01; done # until its ranks are gone too
    return $status
}

for round in $(seq "$rounds"); do
    for n in 1 2 3 4 calm; do
        start "round$round" $n; status=$?
        case $status in
        0) break ;;
        1) grep -q "killed by signal 9" err || fails "another error" ;;
        75 | 137 | 143) ;;
        *) fails "exit status $status" ;;
        esac
    done
    [ $status -eq 0 ] || fails "does not finish: exit status $status"
    for file in model.safetensors optimizer.safetensors; do
        cmp "runs/whole/checkpoints/latest/$file" "runs/round$round/checkpoints/latest/$file" || fails "another $file"
    done
    "$lockstep" inspect "runs/round$round/checkpoints/latest" --verify >out 2>err || fails "the checkpoint is damaged"
    rm -rf "runs/round$round"
done
echo "$rounds rounds, $kills blows, $again times ranks were started again by their parent: always the same bytes (seed $seed)"
