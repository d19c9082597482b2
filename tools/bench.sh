#!/bin/sh
# Speed: matrix products beside the machine's peak and oneDNN, the training step of the ViT, and, where a Python has PyTorch, that step
# against PyTorch's in turns. PYTHON=/path/to/python chooses one; `make parity` makes one in .venv.
set -eu
cd "$(dirname "$0")/.."

echo "== matrix products, one thread"
build/bench/bench_gemm best 1
echo
echo "== training step of the ViT, batch 64: seconds of each step, share of the peak"
for threads in $(seq 1 "$(nproc)" | head -2); do
    for dtype in f32 bf16; do
        build/bench/bench_vit_step --threads "$threads" --dtype "$dtype"
    done
done
echo
echo "== against PyTorch, in turns"
for python in ${PYTHON:-.venv/bin/python python3}; do
    if "$python" -c 'import torch' 2> /dev/null; then
        exec "$python" bench/compare.py build
    fi
done
echo "no PyTorch here, so no ratio: \`make parity\` installs it into .venv, or name one with PYTHON=/path/to/python"
