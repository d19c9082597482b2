#!/usr/bin/env python3
"""Times PyTorch's training step of a tutorial over several ranks of this machine (gloo, one thread each): of
the ViT, or of ResNet18 (`--size`: its
pictures; from 100 on with three channels). The peer of bench/ranks.

    python bench/torch_ranks.py [--model vit|resnet18] [--size 28] [--ranks 2] [--strategy
    fsdp|fsdp_keep|fsdp_bf16|ddp] [--batch 64] [--steps 10]
                                [--serve]

Prints one JSON line, as bench/ranks does; --serve answers every line "STEPS" of stdin with one. This process
is rank 0, times its own steps and
starts the others; all have `batch` samples. The strategies are those of tools/golden/ranks.py; one rank
trains the plain model."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "golden"))
import ranks as several  # noqa: E402
from common import fill, normalize, values  # noqa: E402
from resnet import ResNet  # noqa: E402
from vit import VisionTransformer  # noqa: E402


def make_step(options):
    channels = 3 if options.size >= 100 else 1
    images = (values("bench.images", (options.batch, channels, options.size, options.size), 128) + 128).to(
        torch.uint8
    )
    labels = (values("bench.labels", (options.batch,), 4096) + 4096).long() % 10
    model = fill(VisionTransformer() if options.model == "vit" else ResNet(18, channels))
    if options.ranks > 1:
        model = several.wrap(model, options.strategy)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return lambda: several.step(model, optimizer, normalize(images, torch.float32), labels).item()


def measure(step, steps, options):
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    if dist.get_rank() == 0:
        print(
            json.dumps(
                {
                    "torch": torch.__version__,
                    "model": options.model,
                    "ranks": options.ranks,
                    "strategy": options.strategy,
                    "batch": options.batch,
                    "seconds": [round(s, 6) for s in seconds],
                    "median": round(statistics.median(seconds), 6),
                    "min": round(min(seconds), 6),
                    "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
                }
            ),
            flush=True,
        )


def agreed(steps):
    """Rank 0's number, on every rank; 0 ends."""
    box = torch.tensor([steps])
    dist.broadcast(box, 0)
    return int(box)


def run(options):
    several.join(options.rank, options.ranks, options.store)
    torch.use_deterministic_algorithms(False)
    step = make_step(options)
    for _ in range(3):
        step()
    if not options.serve:
        measure(step, options.steps, options)
    elif options.rank == 0:
        print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
        for line in sys.stdin:
            measure(step, agreed(int(line)), options)
        agreed(0)
    else:
        while steps := agreed(0):
            measure(step, steps, options)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=("vit", "resnet18"), default="vit")
    parser.add_argument("--size", type=int, default=28, help="of ResNet18's pictures")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--strategy", choices=several.STRATEGIES, default="fsdp")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
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
