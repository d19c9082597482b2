#!/usr/bin/env python3
"""Times PyTorch's training step of tutorial 3 over ranks of this machine (gloo, one thread each), tensor
parallel x FSDP2, as tools/golden/language.py has it.
The peer of `lockstep train` in the rows `tp` of bench/run.py.

    python bench/torch_language.py [--dp 1] [--tp 1] [--types f32|bf16] [--tokens 512]

The model is a Qwen2 of 34.5 million parameters. Answers every line "STEPS" of stdin with a line of JSON. This
process is rank 0, times its own steps and starts the others; each
data rank has one row."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "golden"))
import language  # noqa: E402
import ranks as several  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from transformers.utils import logging  # noqa: E402


def agreed(steps):
    """Rank 0's number, on every rank; 0 ends."""
    box = torch.tensor([steps])
    dist.broadcast(box, 0)
    return int(box)


def measure(step, steps):
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    if dist.get_rank() == 0:
        print(
            json.dumps(
                {
                    "median": statistics.median(seconds),
                    "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                }
            ),
            flush=True,
        )


def run(options):
    several.join(options.rank, options.dp * options.tp, options.store)
    torch.use_deterministic_algorithms(False)
    torch.manual_seed(0)
    model = language.Qwen2ForCausalLM(
        language.Qwen2Config(
            vocab_size=32000,
            hidden_size=512,
            intermediate_size=1536,
            num_hidden_layers=6,
            num_attention_heads=8,
            num_key_value_heads=2,
            rope_theta=1e6,
            tie_word_embeddings=True,
        )
    ).train()
    torch.manual_seed(options.rank // options.tp)
    if options.dp * options.tp > 1:
        model = language.parallelize(model, options.dp, options.tp, options.types)
    optimizer = language.optimizer_of(model, 1e-5)
    ids = torch.randint(97, 123, (1, options.tokens))
    step = lambda: language.step(model, optimizer, ids, torch.ones_like(ids), ids, options.types)
    step()
    step()
    if options.rank == 0:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            measure(step, agreed(int(line)))
        agreed(0)
    else:
        while steps := agreed(0):
            measure(step, steps)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dp", type=int, default=1)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--types", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.disable_progress_bar()
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
            for r in range(1, options.dp * options.tp)
        ]
        run(options)
        sys.exit(max((p.wait() for p in others), default=0))


if __name__ == "__main__":
    main()
