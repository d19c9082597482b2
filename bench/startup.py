#!/usr/bin/env python3
"""From exec of `lockstep train` to the start of its first step, by its own log line, on data that was read
before: tutorial 1 on 1, 2 and 4 workers.

    python bench/startup.py BUILD_DIR [--times 10]

LOCKSTEP_DATA names a folder with fashion-mnist/. The first run of each, which may have to inflate the data,
does not count. `outside` is the time
from exec to the arrival of that line here, Python's own start of a process included. Then the run is killed:
its ranks end with it.
"""

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
    arguments = [
        "train",
        "vit-fashion-mnist",
        "--no-progress",
        "--workers",
        str(workers),
        "--set",
        f"run.storage={storage}",
    ]
    begin, said = time.perf_counter(), ""
    with subprocess.Popen(
        [command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            outside, found = 1e3 * (time.perf_counter() - begin), LINE.search(line)
            if found:
                process.kill()
                process.stderr.read()  # until the last rank has closed it
                return float(found[1]), found[2], outside
            said += line
    sys.exit(f"{command} with {workers} workers ended before its first step:\n{said}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build")
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    command = os.path.join(options.build, "lockstep")
    for workers in (1, 2, 4):
        runs = []
        for _ in range(options.times + 1):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as storage:
                runs.append(start(command, workers, storage))
        runs = sorted(runs[1:])
        middle = runs[len(runs) // 2]
        target = "  target: under 80 ms" if workers == 2 else ""
        print(
            f"{workers} worker{'s' if workers > 1 else ' '}  {middle[0]:7.1f} ms  ({runs[0][0]:.1f} to {runs[-1][0]:.1f}; "
            f"outside {statistics.median(r[2] for r in runs):.0f} ms){target}\n           {middle[1]}"
        )


if __name__ == "__main__":
    main()
