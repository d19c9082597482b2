"""nf4.py - a weight of 4 bits as bitsandbytes 0.50.2 writes it, the numbers that it stands for, and those that it was made of.

    pip install bitsandbytes==0.50.2; python tools/golden/nf4.py
"""
import pathlib

import bitsandbytes.functional as bnb
import numpy as np
import torch
from safetensors.torch import save_file


def numbers(n):
    """Sums of four pieces of a random word, of thirteen sizes: as tests/base/test_nf4.c makes them."""
    with np.errstate(over="ignore"):
        z = (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    total = sum(((z >> np.uint64(16 * k)) & np.uint64(0xFFFF)).astype(np.int64) for k in range(4)) - 131070
    return (total * (1 + np.arange(n) // 64 * 7 % 13)).astype(np.float32) * np.float32(2.0**-22)


def make(path, rows, columns, whole):
    w = torch.from_numpy(numbers(rows * columns).reshape(rows, columns))
    codes, state = bnb.quantize_4bit(w, blocksize=64, quant_type="nf4", compress_statistics=True)
    tensors = {"layer.weight": codes}
    tensors |= {f"layer.weight.{k}": v.contiguous() for k, v in state.as_dict(packed=True).items()}
    if whole:
        tensors |= {"plain.weight": w, "expected": bnb.dequantize_4bit(codes, state)}
    save_file(tensors, path)


tests = pathlib.Path(__file__).parents[2] / "tests"
make(tests / "golden/nf4.safetensors", 16, 128, True)
make(tests / "fuzz/corpus/safetensors/nf4", 2, 64, False)
