# common.sh - what the tests of the command begin with: `source` it with the command as $1. A scratch folder that goes away at the end, an environment
# without traces of the caller's, and checks that count what fails and go on; the test ends with `finish`.
set -u
lockstep=$1
me=$(basename "$0")
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-${me%.sh}-XXXXXX")
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export LOCKSTEP_CACHE=$work/cache
unset LOCKSTEP_DATA LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_FAULT LOCKSTEP_FAIL LOCKSTEP_CGROUP SLURM_JOB_END_TIME
failures=0

bad() { echo "$me: $*"; failures=$((failures + 1)); }
# try STATUS ARGS...: runs the command, keeps ./out and ./err
try() {
    local want=$1; shift
    what="lockstep $*"
    "$lockstep" "$@" >out 2>err </dev/null
    local got=$?
    [ $got -eq "$want" ] || { bad "$what: exit status $got instead of $want"; cat err; }
}
has() { grep -qE -- "$2" "$1" || { bad "$what: '$2' is not in $1:"; tail -n 20 "$1"; }; }
# refused STATUS MESSAGE ARGS...: one error, which says so
refused() {
    local status=$1 message=$2
    shift 2
    try "$status" "$@"
    has err "$message"
    times 1 err '^error: '
}
# times COUNT FILE PATTERN: in so many lines
times() { [ "$(grep -cE -- "$3" "$2")" = "$1" ] || { bad "$what: '$3' is not $1 times in $2:"; tail -n 20 "$2"; }; }
once() { times 1 "$@"; }
# same NAME: this run ended with the files of the one that nothing disturbed
same() {
    local file
    for file in model.safetensors optimizer.safetensors; do
        cmp "runs/whole/checkpoints/latest/$file" "runs/$1/checkpoints/latest/$file" || bad "$what: another $file"
    done
    has "runs/$1/result.json" '"state":"finished"'
}
# until_true COMMAND...: as long as it takes on a machine that has no time for us
until_true() { local end=$((SECONDS + 120)); while [ $SECONDS -lt $end ]; do "$@" 2>/dev/null && return; sleep 0.01; done; bad "$what: waits in vain for: $*"; tail -n 20 err; false; }
# free NAME: no process holds that run any more. (Looked up, not tried: whoever takes the lock to see whether it is free stands in the way.)
free() { ! grep -q ":$(stat -c %i "runs/$1/lock.txt") " /proc/locks; }
finish() { [ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }; }
