# page.sh - what a tutorial's script begins with: `source` it with COMMAND EXAMPLES GOLDEN [MPIRUN] as arguments. EXAMPLES: the folder of the built examples.
# The script is the short form of the page of its name in docs/tutorials: the page's commands, word for word and in its order (tests/build/tutorials.sh compares
# the two), on little data and with small numbers. A command that fails, fails the test; `has` looks into what it printed.
page=$(cd "$(dirname "$0")/../../../docs/tutorials" && pwd)/$(basename "$0" .sh).md
source "$(dirname "$0")/../common.sh"
examples=$2 golden=$3 mpi=${4:-}
export LOCKSTEP_DATA=$work/data HF_HOME=$work/huggingface HF_ENDPOINT=file://$hub
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
unset HF_TOKEN HF_HUB_CACHE HF_HUB_OFFLINE
set -o pipefail
trap 'bad "exit status $?: $BASH_COMMAND"' ERR

# Memory of a plan depends on the instruction set and on the threads: the pages' figures are those of level avx2 on one thread.
level=
! grep -qw avx2 /proc/cpuinfo || level=avx2
# said REGEX [COLUMN] - every figure ("61.0 MiB") of the page's lines that match is in what the last command printed; with COLUMN in this one of `plan --compare`,
# without it, in a row of a table, all of them in one line and in this order
said() {
    local line figures f
    [ "$level" ] || { left_out "figures of plans: they are those of level avx2"; return 0; }
    line=$(grep -E -- "$1" "$page") || { bad "$page has no line $1"; return 0; }
    figures=$(grep -oE '[0-9]+([.][0-9]+)? [KMG]iB' <<<"$line") || { bad "$page: no figure in: $line"; return 0; }
    if [ "${2:-}" ]; then
        while read -r f; do
            awk -F'  +' -v f="$f" -v c="$2" '{ sub(/^ +/, ""); gsub(/[0-9]+, /, ""); if ($(c + 1) == f) found = 1 } END { exit !found }' out || bad "$page says $f in: $line; column $2 of: $what"
        done <<<"$figures"
    elif [ "${line:0:1}" = '|' ]; then
        grep -qE "$(sed 's/[.]/[.]/g' <<<"$figures" | paste -sd'~' | sed 's/~/ +/g')" out || bad "$page: not in: $what: $line"
    else
        while read -r f; do grep -qF "$f" out || bad "$page says $f in: $line; not in: $what"; done <<<"$figures"
    fi
}

tiny=() # what `lockstep train RECIPE` is told besides, in front of the page's own words, which count more
lockstep() {
    what="lockstep $*"
    local words=("$@")
    [ "$1" != train ] || words=("$1" "$2" "${tiny[@]}" "${@:3}")
    local isa=${LOCKSTEP_ISA:-}
    [ "$1" != plan ] || { words+=(--set threads=1); isa=$level; }
    LOCKSTEP_ISA=$isa "$lockstep" "${words[@]}" >out 2>err </dev/null || { local got=$?; tail -n 20 err; return $got; }
    cat out
}

# Set-up is what build.deps and build.install test; the others need a viewer, a network, PyTorch (PYTHON names one that has it) or MPI.
sudo() { :; }
cc() { ln -sf "$examples/$(basename "$1" .c)" "${!#}"; }
pkg-config() { :; }
less() { cat >/dev/null; }
curl() { :; }
python() { [ -z "${PYTHON:-}" ] || "$PYTHON" "$@"; }
mpirun() { if [ "$mpi" ]; then "$mpi" "$@"; else left_out "mpirun (Debian: openmpi-bin libopenmpi-dev)"; shift 2; "$@"; fi; }
