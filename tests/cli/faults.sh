#!/bin/bash
# faults.sh COMMAND - two ranks as processes, from their start to the report, of which the parent or either rank is refused something by the system,
# or dies at such a point: the command ends with status 1 and one message, no process outlives it, and started again the run ends with the bytes of
# an undisturbed one. The same for one process and for two ranks that continue a run that died.
set -u
lockstep=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-faults-XXXXXX")
cd "$work" || exit 1
trap 'cd /; rm -rf "$work"' EXIT
export LOCKSTEP_CACHE=$work/cache
unset LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_FAULT LOCKSTEP_FAIL
failures=0 refused=0 killed=0

bad() { echo "faults.sh: $fault: $*"; failures=$((failures + 1)); cat err; }

# 64 images of noise
{ printf '\0\0\010\003\0\0\0\100\0\0\0\010\0\0\0\010'; head -c 4096 /dev/urandom; } >images
{ printf '\0\0\010\001\0\0\0\100'; head -c 10000 /dev/urandom | tr -cd '\000-\011' | head -c 64; } >labels
cat >small.yaml <<END
model: {type: mlp, image_size: 8, hidden: [16]}
data: {type: idx, train_images: images, train_labels: labels, eval_images: images, eval_labels: labels}
train: {epochs: 2, global_batch: 32, micro_batch: 8}
checkpoint: {every_steps: 2}
threads: 1
END
fault=none
workers=2
train() { timeout 300 "$lockstep" train small.yaml --workers $workers --set run.name="$1" >out 2>err </dev/null; }
train whole || bad "fails"

# with FAULT: the run `one`; its exit status in $got. Whatever it starts inherits the lock on ./lives.
with() {
    fault=$1
    (flock 9; LOCKSTEP_FAIL=$fault train one) 9>lives
    got=$?
    flock -n lives true || bad "a process is still there"
    [ $got -eq 0 ] || [ "$(grep -c '^error: ' err)" -eq 1 ] || bad "not one message"
    ! grep -q 'SIGSEGV\|SIGABRT\|SIGBUS' err || bad "a process crashed"
}
again() {
    train one || bad "started again: fails"
    for file in model.safetensors optimizer.safetensors; do
        cmp "runs/whole/checkpoints/latest/$file" "runs/one/checkpoints/latest/$file" || bad "another $file"
    done
    rm -rf runs/one
}

# Every POINT of PROCESS (-1: the parent), in strides, until there are no more: a fault that did no harm may have been passed by.
every() {
    local harmless=0 n
    for ((n = 0; harmless < 3 && failures == 0; n += $3)); do
        with "$2@$n:rank=$1"
        case $got in
        0) harmless=$((harmless + 1)) ;;
        1) refused=$((refused + 1)) harmless=0 ;;
        *) bad "exit status $got" ;;
        esac
        rm -rf runs/one
    done
}
for rank in -1 0 1; do
    for point in spawn map size; do every $rank $point 1; done
    every $rank open 5
    every $rank memory $((rank < 0 ? 13 : 157)) # a rank makes thousands of allocations
    every $rank call 31
done

# Killed in between
for rank in 0 1; do
    for ((n = 0; failures == 0; n += 151)); do
        with "any@$n:kill:rank=$rank"
        [ $got -eq 0 ] && break
        [ $got -eq 1 ] && grep -q "^error: rank $rank: killed by signal 9" err || bad "exit status $got"
        killed=$((killed + 1))
        again
    done
    rm -rf runs/one
done
[ $refused -ge 40 ] && [ $killed -ge 10 ] || bad "only $refused were refused, $killed killed"

# died WORKERS RANK: ./died becomes a run of which RANK was killed after the first checkpoint; where a parent wrote down how it ended, that is undone
died() {
    local n
    workers=$1 fault="no run of $1 dies"
    for ((n = 0; n < 20000; n += 150)); do
        rm -rf runs/one died
        { LOCKSTEP_FAIL="any@$n:kill:rank=$2" train one; } 2>/dev/null
        [ -e runs/one/checkpoints/latest ] && break
    done
    sed -i 's/"state":"failed"/"state":"running"/' runs/one/result.json
    grep -qE '"state":"(running|saving)"' runs/one/result.json || bad "it ended otherwise"
    cp -a runs/one died
}
# continued RANK STRIDE: a run that died is continued while RANK is refused one point after the other; then it still continues to the same bytes
continued() {
    local harmless=0 n
    for ((n = 0; harmless < 10 && failures == 0; n += $2)); do
        rm -rf runs/one
        cp -a died runs/one
        with "any@$n:rank=$1"
        case $got in
        0) harmless=$((harmless + 1)) ;;
        1) again_refused=$((again_refused + 1)) harmless=0; again ;;
        *) bad "continues a run that died: exit status $got" ;;
        esac
    done
    rm -rf runs/one
}
again_refused=0
died 1 -1
continued -1 43
died 2 0
for rank in -1 0 1; do continued $rank $((rank < 0 ? 5 : 113)); done
[ $again_refused -ge 100 ] || bad "only $again_refused were refused while a run was continued"
echo "$refused refused, $killed killed, $again_refused refused while a run that died was continued"
[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
