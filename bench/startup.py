#!/usr/bin/env python3
"""From exec of `lockstep train` to the start of its first step, by its own log line, on data that was read before: tutorial 1 on 1, 2 and 4 workers.

    python bench/startup.py BUILD_DIR [--times 10]

LOCKSTEP_DATA names a folder with fashion-mnist/. The first run of each, which may have to inflate the data, does not count. `outside` is the time
from exec to the exit of the whole command, which trains one step and evaluates nothing."""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

LINE = re.compile(r"first step after ([0-9.]+) ms \((.*)\)")


def start(command, workers, storage):
    begin = time.perf_counter()
    arguments = ["--workers", str(workers), "--set", "train.steps=1", "--set", "eval.every_epochs=0", "--set", f"run.storage={storage}"]
    done = subprocess.run([command, "train", "vit-fashion-mnist", "--no-progress", *arguments], capture_output=True, text=True)
    outside = 1e3 * (time.perf_counter() - begin)
    found = LINE.search(done.stderr + done.stdout)
    if done.returncode or not found:
        sys.exit(f"{command} with {workers} workers: exit status {done.returncode}\n{done.stderr}")
    return float(found[1]), found[2], outside


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    command = os.path.join(options.build, "lockstep")
    for workers in (1, 2, 4):
        runs = []
        for _ in range(options.times + 1):
            with tempfile.TemporaryDirectory() as storage:
                runs.append(start(command, workers, storage))
        runs = sorted(runs[1:])
        middle = runs[len(runs) // 2]
        target = "  target: under 80 ms" if workers == 2 else ""
        print(f"{workers} worker{'s' if workers > 1 else ' '}  {middle[0]:7.1f} ms  ({runs[0][0]:.1f} to {runs[-1][0]:.1f}; "
              f"outside {statistics.median(r[2] for r in runs):.0f} ms){target}\n           {middle[1]}")


if __name__ == "__main__":
    main()
