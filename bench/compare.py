#!/usr/bin/env python3
"""The ViT step of tutorial 1, PyTorch against Lockstep, in turns on one machine in one go.

    python bench/compare.py BUILD_DIR [--rounds 7] [--steps 5]

Each round asks both servers for a few steps; a figure is the median over rounds of each round's median, a ratio the median over rounds of
the two programs' ratios, so that a clock that drifts between rounds touches both sides alike."""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class Server:
    def __init__(self, *command, **environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("a benchmark server ended; its message is above")
        return json.loads(line)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    torch = os.path.join(HERE, "torch_vit.py")
    ours = os.path.join(options.build, "bench", "bench_vit_step")
    names = {"torch": Server(sys.executable, torch, "--serve"), "f32": Server(ours, "--serve"), "bf16": Server(ours, "--serve", "--dtype", "bf16")}
    rows = {}
    for _ in range(options.rounds):
        for threads in (1, 2):
            for name, server in names.items():
                rows.setdefault((name, threads), []).append(server.ask(options.steps, threads))

    def median(name, threads, key):
        return statistics.median(r[key] for r in rows[name, threads])

    def ratio(a, b):
        return statistics.median(x["median"] / y["median"] for x, y in zip(rows[a], rows[b]))

    for (name, threads), measured in sorted(rows.items()):
        share = f"  {100 * median(name, threads, 'share_of_burst'):5.1f} % of the FMA burst" if "share_of_burst" in measured[0] else " " * 28
        print(f"{name:6} {threads} thread{'s' if threads > 1 else ' '}  {1e3 * median(name, threads, 'median'):8.2f} ms{share}"
              f"  peak RSS {measured[-1]['peak_rss_mb']:.0f} MB")
    print(f"PyTorch / Lockstep, 1 thread   {ratio(('torch', 1), ('f32', 1)):.2f}")
    print(f"PyTorch / Lockstep, 2 threads  {ratio(('torch', 2), ('f32', 2)):.2f}")
    print(f"1 thread / 2 threads           {ratio(('f32', 1), ('f32', 2)):.2f}   (PyTorch {ratio(('torch', 1), ('torch', 2)):.2f})")
    print(f"f32 / bf16, 1 thread           {ratio(('f32', 1), ('bf16', 1)):.2f}")


if __name__ == "__main__":
    main()
