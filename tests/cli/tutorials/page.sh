# page.sh - what a tutorial's script begins with: `source` it with COMMAND EXAMPLES GOLDEN [MPIRUN] as arguments. EXAMPLES: the folder of the built examples.
# The script is the short form of the page of its name in docs/tutorials: the page's commands, word for word and in its order (tests/build/tutorials.sh compares
# the two), on little data and with small numbers. A command that fails, fails the test; `has` looks into what it printed.
source "$(dirname "$0")/../common.sh"
examples=$2 golden=$3 mpi=${4:-}
export LOCKSTEP_DATA=$work/data HF_HOME=$work/huggingface HF_ENDPOINT=file://$hub
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
unset HF_TOKEN HF_HUB_CACHE HF_HUB_OFFLINE
set -o pipefail
trap 'bad "exit status $?: $BASH_COMMAND"' ERR

tiny=() # what `lockstep train RECIPE` is told besides, in front of the page's own words, which count more
lockstep() {
    what="lockstep $*"
    local words=("$@")
    [ "$1" != train ] || words=("$1" "$2" "${tiny[@]}" "${@:3}")
    "$lockstep" "${words[@]}" >out 2>err </dev/null || { local got=$?; tail -n 20 err; return $got; }
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
