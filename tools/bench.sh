#!/bin/sh
# Speed: matrix products beside the machine's peak and oneDNN; the training step of the ViT on one rank and on several, and against PyTorch's in
# turns where a Python has it, and of ResNet18; collectives beside memcpy and Open MPI; the start of a run. PYTHON=/path/to/python chooses one;
# `make parity` makes one in .venv. Arguments choose topics: gemm step torch collectives ranks resnet language checkpoint caches startup.
set -eu
cd "$(dirname "$0")/.."
build=build

python=python3
for candidate in ${PYTHON:-.venv/bin/python}; do
    if "$candidate" -c 'import torch' 2> /dev/null; then
        python=$candidate
    fi
done
if "$python" -c 'import torch' 2> /dev/null; then
    have_torch=yes
else
    have_torch=no
    echo "no PyTorch here, so no ratios to it: \`make parity\` installs it into .venv, or name one with PYTHON=/path/to/python"
    echo
fi

gemm() {
    echo "== matrix products, one thread"
    $build/bench/bench_gemm best 1
}

step() {
    echo "== training step of the ViT, batch 64: seconds of each step, share of the peak"
    for threads in $(seq 1 "$(nproc)" | head -2); do
        for dtype in f32 bf16; do
            $build/bench/bench_vit_step --threads "$threads" --dtype "$dtype"
        done
    done
}

torch() {
    if [ $have_torch = yes ]; then
        echo "== against PyTorch, in turns"
        "$python" bench/compare.py $build
    fi
}

collectives() {
    echo "== collectives of two ranks, into private memory; mapping"
    "$python" bench/compare_collectives.py $build
}

ranks() {
    echo "== training step of the ViT over ranks, 64 images a rank"
    if [ $have_torch = yes ]; then
        "$python" bench/compare_ranks.py $build
    else
        "$python" bench/compare_ranks.py $build --no-torch
    fi
}

resnet() {
    echo "== training step of ResNet18"
    if [ $have_torch = yes ]; then
        "$python" bench/compare_resnet.py $build
    else
        "$python" bench/compare_resnet.py $build --no-torch
    fi
}

language() {
    if [ $have_torch = yes ]; then
        echo "== training step of a Qwen2, one process and tensor parallel x FSDP over four, against PyTorch with transformers"
        "$python" bench/compare_language.py $build
    fi
}

checkpoint() {
    echo "== saving and loading 1.2 GB over two ranks"
    if [ $have_torch = yes ]; then
        "$python" bench/compare_checkpoint.py $build
    else
        "$python" bench/compare_checkpoint.py $build --no-torch
    fi
}

caches() {
    echo "== opening data from the caches, checksums compared"
    folder=$(mktemp -d)
    $build/bench/bench_caches "$folder"
    rmdir "$folder"
}

startup() {
    echo "== from exec to the first step"
    if [ -n "${LOCKSTEP_DATA:-}" ]; then
        "$python" bench/startup.py $build
    else
        echo "needs Fashion-MNIST: LOCKSTEP_DATA names a folder that holds fashion-mnist/"
    fi
}

for topic in ${*:-gemm step torch collectives ranks resnet language checkpoint caches startup}; do
    $topic
    echo
done
