#!/usr/bin/env python3
"""Collectives of two ranks over shared memory, beside copying memory and Open MPI, in turns.

    python bench/compare_collectives.py BUILD_DIR [--rounds 5] [--most MB]

The bound is the time in which both ranks at once, at memcpy's rate of the same run for that size, would read
and write the bytes that must be:
of S bytes an all-reduce into private memory reads 2 S and writes S (or halves, and writes and reads the sums
once more: the same), a
reduce-scatter reads S and writes S/2, an all-gather reads S and writes S. memcpy itself reads and writes S.
It is not a floor: what both ranks read
may come from memory once, where their cores share a cache. Mapping reads and writes S/2; no copy is its
equal.
A figure is the median over rounds; ratios are taken within a round.

Open MPI runs as it is installed (its ranks bound to cores, messages copied once, by the kernel), and once
more with a C library that keeps freed
memory: MPI takes temporary memory in each call, and most of what a call of 16 MB or more costs it is that
those pages are new.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess

KEEP = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592"}
BOUND = {"all_reduce": 1.5, "reduce_scatter": 0.75, "all_gather": 1.0, "map": None}  # in memcpys


def rows(command, extra=None):
    environment = {
        **os.environ,
        **(extra or {}),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return {row["bytes"]: row for row in map(json.loads, done.stdout.splitlines())}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", default="256", help="largest size in MB")
    options = parser.parse_args()
    program = [os.path.join(options.build, "bench", "bench_collectives"), options.most]
    mpirun, peer = shutil.which("mpirun.openmpi") or shutil.which("mpirun"), os.path.join(
        options.build, "bench", "bench_mpi_collectives"
    )
    mpi = [mpirun, "-n", "2", peer, options.most] if mpirun and os.path.exists(peer) else None
    rounds = [
        (rows(program), rows(mpi) if mpi else {}, rows(mpi, KEEP) if mpi else {})
        for _ in range(options.rounds)
    ]

    def median(function):
        return statistics.median(function(*figures) for figures in rounds)

    print(
        f"{'':14} {'size':>8} {'us':>9} {'GB/s':>6} {'of bound':>8} | {'Open MPI':>9} {'of bound':>8} {'times':>6} |"
        f" {'keeping':>9} {'times':>6}"
    )
    for name, copies in BOUND.items():
        for size in rounds[0][0]:
            seconds = median(lambda ours, *_: ours[size][name])
            line = f"{name:14} {size >> 10:>5} KB {1e6 * seconds:9.1f} {1e-9 * size / seconds:6.1f}"
            if copies:
                line += f" {100 * median(lambda ours, *_: copies * ours[size]['memcpy'] / ours[size][name]):6.0f} %"
                if mpi:
                    line += f" | {1e6 * median(lambda _, theirs, __: theirs[size][name]):9.1f}"
                    line += f" {100 * median(lambda ours, theirs, _: copies * ours[size]['memcpy'] / theirs[size][name]):6.0f} %"
                    line += f" {median(lambda ours, theirs, _: theirs[size][name] / ours[size][name]):6.1f}"
                    line += f" | {1e6 * median(lambda _, __, kept: kept[size][name]):9.1f}"
                    line += f" {median(lambda ours, _, kept: kept[size][name] / ours[size][name]):6.1f}"
            print(line)
    print("targets: at least 70 % of the bound, at least 4 times MPI_Allreduce")
    if not mpi:
        print("no Open MPI here (Debian's libopenmpi-dev and openmpi-bin), so no ratio to it")


if __name__ == "__main__":
    main()
