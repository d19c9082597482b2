#!/bin/sh
# Speed. Without words, or with ONLY="WORD ...": Lockstep beside PyTorch in turns (bench/run.py), the results kept in bench/results.json, README's table made of them.
# Words gemm, conv, collectives, caches and planner are for parts alone: matrix products and convolutions beside the machine's peak, collectives beside memcpy and
# Open MPI, opening data, the predictions of `plan` beside measured steps. PYTHON=/path/to/python names one with PyTorch and transformers; `make parity` makes one in .venv.
set -eu
cd "$(dirname "$0")/.."
build=build

python=python3
for candidate in ${PYTHON:-.venv/bin/python}; do
    if "$candidate" -c 'import torch' 2> /dev/null; then
        python=$candidate
    fi
done

gemm() { $build/bench/bench_gemm best 1; }
conv() { $build/bench/bench_conv best 1 64 28; }
collectives() { "$python" bench/compare_collectives.py $build; }
planner() { python3 bench/planner.py $build; }
caches() {
    folder=$(mktemp -d)
    $build/bench/bench_caches "$folder"
    rmdir "$folder"
}

rows= parts=
for word in "$@"; do
    case $word in
    gemm | conv | collectives | caches | planner) parts="$parts $word" ;;
    *) rows="$rows $word" ;;
    esac
done
for part in $parts; do
    $part
done
if [ -n "$rows" ] || [ -z "$parts" ]; then
    if ! "$python" -c 'import torch, transformers' 2> /dev/null; then
        echo "no PyTorch with transformers here, so nothing to compare with: \`make parity\` installs it into .venv, or name one with PYTHON=/path/to/python" >&2
        exit 1
    fi
    "$python" bench/run.py $build --only $rows
    python3 bench/readme.py
fi
