#!/bin/bash
# full_disk.sh COMMAND - a run whose disk becomes full ends with one message that says what, where and what to do; its last checkpoint is whole, and
# with more room the same command goes on to the same bytes. The disk is a small file system in memory; where none may be mounted, that is said, and
# only a limit on the size of files is tested.
set -u
lockstep=$(realpath "$1")
[ $# -gt 1 ] || ! unshare -rm true 2>/dev/null || exec unshare -rm "$0" "$lockstep" inside
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-full-XXXXXX")
cd "$work" || exit 1
trap 'cd /; umount "$work/disk" 2>/dev/null; rm -rf "$work"' EXIT
export LOCKSTEP_CACHE=$work/cache
unset LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_FAULT LOCKSTEP_FAIL
failures=0

bad() { echo "full_disk.sh: $what: $*"; failures=$((failures + 1)); cat err; }
has() { grep -qE -- "$2" "$1" || bad "'$2' is not in $1"; }

# A checkpoint is two files of 100 and 200 KB.
cat >small.yaml <<END
model: {type: mlp, hidden: [32]}
data: {type: shapes}
train: {epochs: 1, steps: 12, global_batch: 64, micro_batch: 16}
checkpoint: {every_steps: 1, keep: 50}
eval: {every_epochs: 0}
threads: 1
END
# try WORKERS NAME STATUS
try() {
    "$lockstep" train small.yaml --workers "$1" --set run.name="$2" --set run.storage=disk >out 2>err </dev/null; local got=$?
    [ $got -eq "$3" ] || bad "exit status $got instead of $3"
}
says() { # says NAME WHY: once
    has err "^error: .*disk/$1/.*: cannot [a-z ]*: $2"
    [ "$(grep -c '^error: ' err)" -eq 1 ] || bad "not one message"
}
same() {
    for file in model.safetensors optimizer.safetensors; do
        cmp "whole/checkpoints/latest/$file" "disk/$1/checkpoints/latest/$file" || bad "another $file"
    done
}

mkdir disk
what=whole
try 1 whole 0
mv disk/whole .
what="limited files"
(ulimit -f 150; try 1 limited 1; exit $failures); failures=$?
says limited "File too large \(a file size limit was reached: see ulimit -f"
try 1 limited 0; has err "starts from the beginning"; same limited

if ! mount -t tmpfs -o size=1m none disk 2>err; then
    [ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
    echo "skipped: full_disk.sh: no small file system may be mounted here ($(cat err))"
    exit 77
fi
for workers in 1 2; do
    what="full disk, $workers workers"
    try $workers run 1
    says run "No space left on device \(the disk is full: free some space or choose another place\)"
    for checkpoint in disk/run/checkpoints/latest disk/run/checkpoints/step-*; do
        "$lockstep" inspect "$checkpoint" --verify >out 2>err || bad "$checkpoint is damaged"
    done
    mount -o remount,size=32m none disk # with the source: else the old options come along, of which another user may not give some
    try $workers run 0; has err "continues after step [1-9]"; same run
    umount disk
    mount -t tmpfs -o size=1m none disk
done
[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
