"""What the golden scripts, the parity check and the benchmark share: weights by formula, sampling, data,
saving."""

import gzip
import os
import struct

import numpy as np
import torch
from safetensors.torch import save_file

MASK = (1 << 64) - 1
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden")


def save(name, tensors):
    tensors = {k: v.detach().contiguous().clone() for k, v in sorted(tensors.items())}
    path = os.path.join(OUT, name + ".safetensors")
    # one key: the library writes several in random order, and the same numbers should be the same file
    save_file(tensors, path, {"torch": torch.__version__.split("+")[0]})
    os.chmod(path, 0o644)
    print(f"{name}: {len(tensors)} tensors, {sum(t.nbytes for t in tensors.values())} bytes")


def fnv1a64(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def formula(name, count, amplitude, center=0.0):
    """count numbers in [center - amplitude, center + amplitude): splitmix64 of fnv1a64(name) + i, its top 16
    bits k give
    center + amplitude * (k - 32768) / 32768. With powers of two for amplitude, and center 0 or 1, exact in
    float32 (and in C:
    tests/golden/golden.c)."""
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a64(name)) + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    k = (z >> np.uint64(48)).astype(np.float64)
    return center + amplitude * (k - 32768) / 32768


def values(name, shape, amplitude, center=0.0, dtype=torch.float64):
    return torch.from_numpy(formula(name, int(np.prod(shape)), amplitude, center)).reshape(shape).to(dtype)


def parameter(name, shape, dtype=torch.float64):
    """Initial value of a model's parameter: matrices and kernels in +-1/8, gains (1-d weights) in 1 +- 1/8,
    all else in +-1/16."""
    if name.endswith("weight"):
        return values(name, shape, 0.125, 1.0 if len(shape) == 1 else 0.0, dtype)
    return values(name, shape, 0.0625, 0.0, dtype)


def fill(model):
    """Gives every parameter its value by formula. Nothing is zero (torchvision's head is), so gradients flow
    everywhere."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(parameter(name, tuple(p.shape), p.dtype))
    return model


def sample(tensor, limit=256):
    """At most `limit` elements, evenly spread: number k is element floor(k * count / n) of the flattened
    tensor."""
    flat = tensor.detach().reshape(-1)
    n = min(limit, flat.numel())
    return flat[torch.tensor([k * flat.numel() // n for k in range(n)])].clone()


def mnist(split, path=None, name="mnist"):
    """images u8 [n, 1, 28, 28] and labels i64 [n] from $LOCKSTEP_DATA/mnist (gzip IDX)."""
    folder = path or os.path.join(os.environ["LOCKSTEP_DATA"], name)
    stem = {"train": "train", "eval": "t10k"}[split]
    with gzip.open(os.path.join(folder, f"{stem}-images-idx3-ubyte.gz")) as f:
        magic, n, rows, columns = struct.unpack(">4I", f.read(16))
        assert magic == 0x803
        images = torch.from_numpy(np.frombuffer(f.read(), np.uint8).reshape(n, 1, rows, columns).copy())
    with gzip.open(os.path.join(folder, f"{stem}-labels-idx1-ubyte.gz")) as f:
        assert struct.unpack(">2I", f.read(8)) == (0x801, n)
        labels = torch.from_numpy(np.frombuffer(f.read(), np.uint8).astype(np.int64))
    return images, labels


def fashion_mnist(split, path=None):
    """The same of $LOCKSTEP_DATA/fashion-mnist."""
    return mnist(split, path, "fashion-mnist")


def normalize(images, dtype):
    """ToTensor and Normalize(0.5, 0.5), in the type of the computation."""
    return images.to(dtype).div(255).sub(0.5).div(0.5)
