#!/usr/bin/env python3
"""Times PyTorch's training step of tutorial 1's ViT: normalise, forward, loss, backward, Adam. The peer of bench/vit_step.

    python bench/torch_vit.py [--threads 1] [--batch 64] [--steps 10] [--warmup 3] [--dtype f32|bf16] [--fused]
        one JSON line: {"threads": 1, ..., "seconds": [...], "median": ..., "min": ..., "peak_rss_mb": ...}
    python bench/torch_vit.py --serve ...
        one line when ready, then for every line "STEPS [THREADS]" on stdin one such JSON line; ends with the input. So that a driver
        can take turns between this process and another one on a machine whose speed changes.

--dtype bf16 is what FSDP2 with MixedPrecisionPolicy(param_dtype=bfloat16) computes: float32 masters, cast each step.
--fused is Adam's fused kernel instead of the default loop over tensors (PyTorch's best case)."""
import argparse
import json
import os
import resource
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.func import functional_call

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "golden"))
from common import fill, normalize, values  # noqa: E402
from vit import VisionTransformer  # noqa: E402


def make_step(batch, dtype, fused):
    images = (values("bench.images", (batch, 1, 28, 28), 128) + 128).to(torch.uint8)
    labels = (values("bench.labels", (batch,), 4096) + 4096).long() % 10
    model = fill(VisionTransformer())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused or None)

    def step():
        x = normalize(images, torch.float32)
        if dtype == "bf16":
            cast = {name: p.to(torch.bfloat16) for name, p in model.named_parameters()}
            logits = functional_call(model, cast, (x.to(torch.bfloat16),)).float()
        else:
            logits = model(x)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def measure(step, steps, options):
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "torch": torch.__version__, "threads": torch.get_num_threads(), "batch": options.batch, "dtype": options.dtype, "fused": options.fused,
        "seconds": [round(s, 6) for s in seconds], "median": round(statistics.median(seconds), 6), "min": round(min(seconds), 6),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    step = make_step(options.batch, options.dtype, options.fused)
    for _ in range(options.warmup):
        step()
    if not options.serve:
        measure(step, options.steps, options)
        return
    print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        words = [int(w) for w in line.split()]
        if not words:
            continue
        if len(words) > 1 and words[1] != torch.get_num_threads():
            torch.set_num_threads(words[1])
            step()  # the pool's first use
        measure(step, words[0], options)


if __name__ == "__main__":
    main()
