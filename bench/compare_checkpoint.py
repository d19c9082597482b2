#!/usr/bin/env python3
"""Saving and loading 1.2 GB of model and Adam state over 2 ranks: torch.distributed.checkpoint against
Lockstep, in turns; and Lockstep against dd on a disk.

    python bench/compare_checkpoint.py BUILD_DIR [--memory /dev/shm] [--disk FOLDER] [--rounds 5] [--no-torch]

In memory-backed storage (a folder of its own in --memory) PyTorch writes and reads without checksums,
Lockstep with them. On the disk (only with --disk)
dd writes as many zeros with conv=fsync. Before each program's turn a file as large is written to the memory
and removed: a virtual machine may take seconds to
get fresh memory from its host, which is nobody's speed. A ratio is the median over rounds of the two
programs' ratios; the first round, which takes page faults, counts for none.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from server import HERE, Server


def met(ratio, target):
    words = target.split()
    good = ratio >= float(words[2]) if words[1] == "least" else ratio <= float(words[2])
    return f"{target:14} {'yes' if good else 'NO'}"


WARM = 1_300_000_000


def dd(folder, size, sync=True):
    path = os.path.join(folder, "dd")
    start = time.perf_counter()
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={path}", "bs=8M", f"count={size}", "iflag=count_bytes", "status=none"]
        + ["conv=fsync"] * sync,
        check=True,
    )
    seconds = time.perf_counter() - start
    os.unlink(path)
    return {"save": seconds, "bytes": size}


def show(name, rows, key):
    rate = [r["bytes"] / r[key] / 1e9 for r in rows]
    print(f"{name:34} {statistics.median(rate):6.2f} GB/s  ({min(rate):.2f} to {max(rate):.2f})")


def ratio(name, slower, faster, key, target):
    ratios = [a[key] / b[key] * b["bytes"] / a["bytes"] for a, b in zip(slower, faster)]
    middle = statistics.median(ratios)
    print(f"{name:34} {middle:6.2f}       ({min(ratios):.2f} to {max(ratios):.2f})  {met(middle, target)}")


def in_memory(options, program, folder):
    ours = Server(program, folder, "--serve")
    torch = (
        None
        if options.no_torch
        else Server(sys.executable, os.path.join(HERE, "torch_checkpoint.py"), folder, "--serve")
    )
    mine, theirs = [], []
    for _ in range(options.rounds + 1):
        dd(folder, WARM, sync=False)
        mine.append(ours.ask("round"))
        if torch:
            dd(folder, WARM, sync=False)
            theirs.append(torch.ask("round"))
    mine, theirs = mine[1:], theirs[1:]
    print(f"{mine[0]['bytes'] / 1e9:.2f} GB over {mine[0]['ranks']} ranks, in {options.memory}")
    show("Lockstep saves", mine, "save")
    show("Lockstep verifies and loads", mine, "load")
    if theirs:
        show("PyTorch DCP saves", theirs, "save")
        show("PyTorch DCP loads", theirs, "load")
        ratio("save, PyTorch / Lockstep", theirs, mine, "save", "at least 1.3")
        ratio("load, PyTorch / Lockstep", theirs, mine, "load", "at least 2.5")
    show("memcpy", mine, "copy")
    show("async: what training waits for", mine, "stage")


def on_disk(options, program, folder):
    ours = Server(program, folder, "--serve")
    mine, theirs = [], []
    for _ in range(options.rounds + 1):
        mine.append(ours.ask("round"))
        theirs.append(dd(folder, mine[-1]["bytes"]))
    mine, theirs = mine[1:], theirs[1:]
    print(f"on the disk of {options.disk}")
    show("Lockstep saves", mine, "save")
    show("dd with fsync", theirs, "save")
    ratio("save, dd / Lockstep", theirs, mine, "save", "at least 0.8")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build")
    parser.add_argument("--memory", default="/dev/shm")
    parser.add_argument("--disk")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    program = os.path.join(options.build, "bench", "bench_checkpoint")
    with tempfile.TemporaryDirectory(dir=options.memory) as folder:
        in_memory(options, program, folder)
    if options.disk:
        with tempfile.TemporaryDirectory(dir=options.disk) as folder:
            on_disk(options, program, folder)


if __name__ == "__main__":
    main()
