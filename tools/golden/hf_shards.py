#!/usr/bin/env python3
"""Folders of PyTorch's HuggingFaceStorageWriter for the tests.

python tools/golden/hf_shards.py    # tests/golden/hf_*, and what is in them as hf_shards.safetensors"""

import os
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import save_file
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden")
RANKS = 3


def tensors():
    """Whole tensors, and the dimension over which the ranks share each (None: all have it)."""
    count = lambda *shape: (torch.arange(float(torch.Size(shape).numel())) / 4 - 1).reshape(shape)
    return {
        "rows": (count(5, 2), 0),
        "columns": (count(2, 6).bfloat16(), 1),
        "few": (count(1, 4), 0),
        "bias": (count(3), None),
        "count": (torch.tensor(7), None),
        "none": (torch.empty(0, 3), None),
    }


def save(rank, folder, **options):
    dcp.save(
        {
            name: value if dim is None else distribute_tensor(value, mesh, [Shard(dim)])
            for name, (value, dim) in tensors().items()
            if not options.get("enable_consolidation") or value.numel() > 1
        },
        storage_writer=HuggingFaceStorageWriter(
            os.path.join(GOLDEN, folder), save_distributed=True, **options
        ),
    )


def run(rank):
    global mesh
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29617")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    save(rank, "hf_shards")
    save(
        rank,
        "hf_indexed",
        fqn_to_index_mapping={"rows": 1, "columns": 2, "few": 1, "bias": 1, "count": 2, "none": 2},
    )
    save(rank, "hf_consolidated", enable_consolidation=True, thread_count_consolidation=2)
    dist.destroy_process_group()


if __name__ == "__main__":
    for folder in ("hf_shards", "hf_indexed", "hf_consolidated"):
        shutil.rmtree(os.path.join(GOLDEN, folder), ignore_errors=True)
    mp.spawn(run, (), RANKS)
    twin = os.path.join(GOLDEN, "hf_shards.safetensors")
    save_file({name: value for name, (value, _) in tensors().items()}, twin, {"format": "pt"})
    os.chmod(twin, 0o644)
