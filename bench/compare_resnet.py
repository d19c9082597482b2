#!/usr/bin/env python3
"""The training step of ResNet18, PyTorch against Lockstep, in turns on one machine in one go: tutorial 2's pictures of 28 x 28 on two ranks of one
thread each and on one, 64 images a rank; and pictures of 224 x 224 x 3 on one, 8 at a time.

    python bench/compare_resnet.py BUILD_DIR [--rounds 5] [--steps 3] [--size 28|224] [--no-torch]

Figures and ratios as in bench/compare_ranks.py. The share is that of the step's nominal FLOPs (products with padding count, which neither program
needs to make, and all of a 3 x 3 kernel's, of which Lockstep makes fewer) in what a burst of multiply-adds reaches on one core in the same
moment."""
import argparse
import os
import statistics
import sys

from compare import HERE, Server
from compare_ranks import met

CASES = {  # name: (size of the pictures, arguments that both programs take)
    "2 ranks, 64 of 28": (28, ["--ranks", "2", "--strategy", "ddp"]),
    "1 rank, 64 of 28": (28, ["--ranks", "1"]),
    "1 rank, 8 of 224": (224, ["--ranks", "1", "--size", "224", "--batch", "8"]),
}
FASTER = {"2 ranks, 64 of 28": "at least 2.5", "1 rank, 64 of 28": "", "1 rank, 8 of 224": "at least 1.2"}
SMALLER = {"2 ranks, 64 of 28": "at most 0.6", "1 rank, 64 of 28": "", "1 rank, 8 of 224": ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--size", type=int, choices=(28, 224), help="only pictures of this size")
    parser.add_argument("--no-torch", action="store_true", help="only Lockstep")
    options = parser.parse_args()
    program, script = os.path.join(options.build, "bench", "bench_ranks"), os.path.join(HERE, "torch_ranks.py")
    servers = {}
    for name, (size, arguments) in CASES.items():
        if options.size in (None, size):
            ours = ["--data" if word == "--strategy" else word for word in arguments]
            servers[name, "Lockstep"] = Server(program, "--serve", "--model", "resnet18", *ours)
            if not options.no_torch:
                servers[name, "PyTorch"] = Server(sys.executable, script, "--serve", "--model", "resnet18", *arguments)
    rows = {key: [] for key in servers}
    for _ in range(options.rounds):
        for key, server in servers.items():
            rows[key].append(server.ask(options.steps))

    def median(key, field):
        return statistics.median(r[field] for r in rows[key])

    print(f"{'':18} {'':9} {'ms a step':>10} {'least':>9} {'peak RSS':>9}")
    for (name, who), measured in rows.items():
        shares = [100 * r["gflop"] / r["median"] / r["burst_gflops"] for r in measured if "burst_gflops" in r]
        share = f"   {statistics.median(shares):5.1f} % of the FMA burst" if shares else ""
        print(f"{name:18} {who:9} {1e3 * median((name, who), 'median'):10.2f} {1e3 * min(r['min'] for r in measured):9.2f} "
              f"{measured[-1]['peak_rss_mb']:6.0f} MB{share}")
    for name in CASES:
        if (name, "PyTorch") in rows:
            ours, theirs = rows[name, "Lockstep"], rows[name, "PyTorch"]
            ratios = [x["median"] / y["median"] for x, y in zip(theirs, ours)]
            middle, memory = statistics.median(ratios), ours[-1]["peak_rss_mb"] / theirs[-1]["peak_rss_mb"]
            print(f"{name:18} PyTorch / Lockstep {middle:6.3f}  ({min(ratios):.3f} to {max(ratios):.3f})  {met(middle, FASTER[name])}")
            print(f"{name:18} peak memory, Lockstep / PyTorch {memory:6.3f}  {met(memory, SMALLER[name])}")


if __name__ == "__main__":
    main()
