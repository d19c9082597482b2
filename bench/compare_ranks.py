#!/usr/bin/env python3
"""The ViT step of tutorial 1 over ranks of this machine, 64 images and one thread each: PyTorch (gloo) against Lockstep, in turns.

    python bench/compare_ranks.py BUILD_DIR [--rounds 9] [--steps 7] [--no-torch]

Each round asks every server for a few steps; a figure is the median over rounds of each round's median, a ratio the median over rounds of two
servers' ratios, so that a clock that drifts between rounds touches both sides alike. Targets are for machines with two cores."""
import argparse
import os
import statistics
import sys

from compare import HERE, Server

OURS = {  # name: arguments of bench_ranks
    "1 rank": ["--ranks", "1"],
    "ddp": ["--data", "ddp"],
    "fsdp map": ["--gather", "map"],
    "fsdp copy": ["--gather", "copy"],
    "fsdp copy, kept": ["--gather", "copy", "--reshard", "false"],
    "fsdp bf16 map": ["--gather", "map", "--dtype", "bf16"],
    "ddp, 4 ranks": ["--ranks", "4", "--data", "ddp"],
    "fsdp map, 4 ranks": ["--ranks", "4", "--gather", "map"],
    "fsdp copy, 4 ranks": ["--ranks", "4", "--gather", "copy"],
}
TORCH = {"PyTorch FSDP2": "fsdp", "PyTorch FSDP2, kept": "fsdp_keep", "PyTorch FSDP2 bf16": "fsdp_bf16", "PyTorch DDP": "ddp"}
RATIOS = [  # slower or larger one, the other, target
    ("PyTorch FSDP2", "fsdp map", "at least 3.3"), ("PyTorch FSDP2", "fsdp copy", "at least 3.3"), ("PyTorch FSDP2, kept", "fsdp copy, kept", ""),
    ("PyTorch DDP", "fsdp map", "at least 1.85"), ("PyTorch DDP", "ddp", "at least 1.85"), ("PyTorch FSDP2 bf16", "fsdp bf16 map", ""),
    ("ddp", "1 rank", "at most 1.06"), ("fsdp map", "1 rank", "at most 1.06"), ("fsdp copy", "1 rank", "at most 1.06"),
    ("fsdp map", "ddp", "at most 1.03"), ("fsdp copy", "ddp", "at most 1.03"),
    ("ddp, 4 ranks", "ddp", "at most 2.15"), ("fsdp map, 4 ranks", "fsdp map", "at most 2.15"), ("fsdp copy, 4 ranks", "fsdp copy", "at most 2.15"),
]


def met(ratio, target):
    words = target.split()
    if not words:
        return ""
    good = ratio >= float(words[2]) if words[1] == "least" else ratio <= float(words[2])
    return f"{target:14} {'yes' if good else 'NO'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--no-torch", action="store_true", help="only Lockstep's own ratios")
    options = parser.parse_args()
    program = os.path.join(options.build, "bench", "bench_ranks")
    servers = {name: Server(program, "--serve", *arguments) for name, arguments in OURS.items()}
    if not options.no_torch:
        script = os.path.join(HERE, "torch_ranks.py")
        servers |= {name: Server(sys.executable, script, "--serve", "--strategy", strategy) for name, strategy in TORCH.items()}
    rows = {name: [] for name in servers}
    for _ in range(options.rounds):
        for name, server in servers.items():
            rows[name].append(server.ask(options.steps))

    def median(name, key):
        return statistics.median(r[key] for r in rows[name])

    print(f"{'2 ranks where not said':24} {'ms a step':>10} {'least':>8} {'peak RSS':>9}")
    for name in rows:
        print(f"{name:24} {1e3 * median(name, 'median'):10.2f} "
              f"{1e3 * min(r['min'] for r in rows[name]):8.2f} {rows[name][-1]['peak_rss_mb']:6.0f} MB")
    print()
    for a, b, target in RATIOS:
        if a in rows and b in rows:
            ratios = [x["median"] / y["median"] for x, y in zip(rows[a], rows[b])]
            middle = statistics.median(ratios)
            print(f"{a + ' / ' + b:42} {middle:6.3f}  ({min(ratios):.3f} to {max(ratios):.3f})  {met(middle, target)}")


if __name__ == "__main__":
    main()
