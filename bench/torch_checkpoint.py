#!/usr/bin/env python3
"""Times torch.distributed.checkpoint with as many bytes as bench/checkpoint has: 2 ranks of this machine
(gloo), model and Adam's moments as DTensors.

    python bench/torch_checkpoint.py FOLDER [--ranks 2] [--layers 14] [--rounds 3] [--serve]

Every tensor of a vision transformer of width 768 is sharded over its first dimension, as FSDP2 does it.
Prints one JSON line a round: seconds of `save` (to a new
folder) and of `load` (into the same tensors). Neither computes checksums. --serve answers every line of stdin
with one round.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def shapes(layers, width=768, mlp=3072):
    block = {
        "ln_1.weight": (width,),
        "ln_1.bias": (width,),
        "self_attention.in_proj_weight": (3 * width, width),
        "self_attention.in_proj_bias": (3 * width,),
        "self_attention.out_proj.weight": (width, width),
        "self_attention.out_proj.bias": (width,),
        "ln_2.weight": (width,),
        "ln_2.bias": (width,),
        "mlp.0.weight": (mlp, width),
        "mlp.0.bias": (mlp,),
        "mlp.3.weight": (width, mlp),
        "mlp.3.bias": (width,),
    }
    all_of_it = {
        "class_token": (1, 1, width),
        "conv_proj.weight": (width, 3, 16, 16),
        "conv_proj.bias": (width,),
        "encoder.pos_embedding": (1, 197, width),
    }
    for layer in range(layers):
        all_of_it |= {f"encoder.layers.encoder_layer_{layer}.{name}": shape for name, shape in block.items()}
    return all_of_it | {
        "encoder.ln.weight": (width,),
        "encoder.ln.bias": (width,),
        "heads.head.weight": (1000, width),
        "heads.head.bias": (1000,),
    }


def timed(call):
    dist.barrier()
    start = time.perf_counter()
    call()
    dist.barrier()
    return time.perf_counter() - start


def run_round(state, options, number):
    folder = os.path.join(options.folder, f"torch-{number}")
    save = timed(lambda: dcp.save(state, checkpoint_id=folder))
    load = timed(lambda: dcp.load(state, checkpoint_id=folder))
    if options.rank == 0:
        shutil.rmtree(folder)
        print(
            json.dumps(
                {
                    "torch": torch.__version__,
                    "save": round(save, 4),
                    "load": round(load, 4),
                    "bytes": sum(4 * t.numel() for part in state.values() for t in part.values()),
                }
            ),
            flush=True,
        )


def run(options):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method="file://" + options.store, rank=options.rank, world_size=options.ranks
    )
    mesh = init_device_mesh("cpu", (options.ranks,))
    state = {
        kind: {
            name: distribute_tensor(torch.zeros(shape), mesh, [Shard(0)])
            for name, shape in shapes(options.layers).items()
        }
        for kind in ("model", "exp_avg", "exp_avg_sq")
    }
    if options.serve and options.rank == 0:
        print(json.dumps({"ready": True}), flush=True)
    number = 0
    while number < options.rounds or options.serve:
        go = torch.tensor([1 if not options.serve or options.rank or sys.stdin.readline() else 0])
        dist.broadcast(go, 0)
        if not go:
            break
        run_round(state, options, number)
        number += 1
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--layers", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        run(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        options.store = os.path.join(folder, "store")
        others = [
            subprocess.Popen(
                [sys.executable, *sys.argv, "--rank", str(r), "--store", options.store],
                stdin=subprocess.DEVNULL,
            )
            for r in range(1, options.ranks)
        ]
        run(options)
        sys.exit(max((p.wait() for p in others), default=0))


if __name__ == "__main__":
    main()
