# common.sh - what the tests of the command begin with: `source` it with the command as $1. A scratch folder that goes away at the end, an environment
# without traces of the caller's, and checks that count what fails and go on; the test ends with `finish`.
set -u
lockstep=$1
me=$(basename "$0")
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-${me%.sh}-XXXXXX")
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export LOCKSTEP_CACHE=$work/cache
unset LOCKSTEP_DATA LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_FAULT LOCKSTEP_FAIL LOCKSTEP_CGROUP OMP_NUM_THREADS SLURM_CPUS_PER_TASK SLURM_JOB_END_TIME SLURM_JOB_ID
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
# until_true COMMAND...: as long as it takes on a machine that has no time for us ($patience seconds)
until_true() { local end=$((SECONDS + ${patience-120})); while [ $SECONDS -lt $end ]; do "$@" 2>/dev/null && return; sleep 0.01; done; bad "$what: waits in vain for: $*"; tail -n 20 err; false; }
# free NAME: no process holds that run any more. (Looked up, not tried: whoever takes the lock to see whether it is free stands in the way.)
free() { ! grep -q ":$(stat -c %i "runs/$1/lock.txt") " /proc/locks; }
# idx_data FOLDER TRAIN TEST SIZE: MNIST's four files, of so many images of SIZE x SIZE pixels of noise, with labels
idx_number() { printf '\\0\\0\\%03o\\%03o' $(($1 / 256)) $(($1 % 256)); }
idx_images() { { printf '\0\0\010\003'; printf "$(idx_number $2)$(idx_number $3)$(idx_number $3)"; head -c $(($2 * $3 * $3)) /dev/urandom; } | gzip >"$1-images-idx3-ubyte.gz"; }
idx_labels() { { printf '\0\0\010\001'; printf "$(idx_number $2)"; head -c $((60 * $2)) /dev/urandom | tr -cd '\000-\011' | head -c $2; } | gzip >"$1-labels-idx1-ubyte.gz"; }
idx_data() { mkdir -p "$1"; idx_images "$1/train" $2 $4; idx_labels "$1/train" $2; idx_images "$1/t10k" $3 $4; idx_labels "$1/t10k" $3; }
# A folder $hub that stands for Hugging Face's server. publish NAME ENTRY,...: repository NAME has the files of the entries, which lie in $hub/NAME/resolve/$commit;
# entry FILE FOLDER: as one of git's; large FILE FOLDER: as one of the large store
commit=0123456789abcdef0123456789abcdef01234567 hub=$work/server
git_hash() { { printf 'blob %d\0' "$(stat -c %s "$1")"; cat "$1"; } | sha1sum | cut -d' ' -f1; }
entry() { printf '{"rfilename": "%s", "size": %d, "blobId": "%s"}' "$1" "$(stat -c %s "$2/$1")" "$(git_hash "$2/$1")"; }
large() { printf '{"rfilename": "%s", "size": 1, "lfs": {"size": %d, "sha256": "%s"}}' "$1" "$(stat -c %s "$2/$1")" "$(sha256sum <"$2/$1" | cut -d' ' -f1)"; }
publish() { mkdir -p "$hub/api/$1/revision"; printf '{"sha": "%s", "siblings": [%s]}' $commit "$2" >"$hub/api/$1/revision/main"; }
# left_out WHAT: this machine lacks something (name the package) that a part of the test needs; the test then ends as skipped, unless something fails
left_out() { echo "skipped: $me: $*"; touch "$work/left_out"; }
# needs PART: the test is skipped where the command has no use of this part (`lockstep doctor`)
needs() { "$lockstep" doctor --no-measure --quiet --need "$1" >out 2>err || { echo "skipped: $me: $(tail -n 1 err)"; exit 77; }; }
# A server of buckets of our own (tests/net/s3/server.c), whose keys the command has; ./requests lists its port, then what it was asked.
bucket_server() {
    unset AWS_SESSION_TOKEN AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL_S3
    export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret no_proxy=127.0.0.1
    "$1" >requests & served=$!
    trap 'kill $served 2>/dev/null; cd /; rm -rf "$work"' EXIT
    until_true test -s requests
    export AWS_ENDPOINT_URL=http://127.0.0.1:$(head -n 1 requests)
}
finish() {
    [ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
    [ ! -e "$work/left_out" ] || exit 77
}
