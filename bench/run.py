#!/usr/bin/env python3
"""Lockstep's training steps beside PyTorch's: every figure of README's tables. `make bench` runs it.

    python bench/run.py BUILD_DIR [--only WORD ...] [--rounds N] [--results bench/results.json]

WORD is a part of a row's name: vit, resnet, qwen, lora, t5, ranks, tp, generate, checkpoint, start, or "vit f32 1";
llama (or "llama f32 2") compares generation with llama.cpp, which needs the packages xllamacpp and gguf.
For each row, PyTorch's modes come one after the other; against each, both programs
take turns in one go. A figure is the median over rounds of each round's median, a ratio the median of the
rounds' ratios, so that a clock that drifts touches both
sides alike; the mode with the least median is PyTorch's best. Beside them a burst of multiply-adds: the bound
is the step's FLOPs (as `lockstep plan` counts them) at
that rate. The mean of bursts as a share of the row's best one ("quiet") says how steady the cores were. The
rows that ran replace theirs in the results, with the machine, its load and its steal, beside
those of other machines; `bench/readme.py` makes README's table of them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from machines import load, save
from rows import corpora, rows
from server import HERE, Ended, Server

# ---- the machine


def ticks():
    with open("/proc/stat", encoding="ascii") as f:
        return [int(x) for x in f.readline().split()[1:]]  # user nice system idle iowait irq softirq steal


def machine(bound):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        lines = [line.split(":", 1) for line in f if ":" in line]
    cpu = {key.strip(): value.strip() for key, value in reversed(lines)}  # of the first processor
    number = lambda key: int(cpu[key]) if cpu.get(key, "").isdigit() else None  # noqa: E731
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": cpu.get("model name", "unknown"),
        "family": number("cpu family"),
        "model": number("model"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory),
        "isa": bound.ask(1, "f32")["isa"],
        "gflops_f32_1": bound.ask(1, "f32")["gflops"],
        "gflops_bf16_1": bound.ask(1, "bf16")["gflops"],
        "kernel": os.uname().release,
    }


def middle(values):
    return statistics.median(values)


IMAGES = ["resnet50-images", "--set", "train.micro_batch=8", "--set", "train.global_batch=8"]
PLANNED = (
    ("vit-b16", ["vit-b16-images", *IMAGES[1:], "--set", "parallel.recompute=none"]),
    ("convnext", ["convnext-tiny-images", *IMAGES[1:]]),
    ("resnet50", IMAGES),
    ("resnet 224", [*IMAGES, "--set", "model.type=resnet18"]),
    ("resnet 28", ["resnet18-mnist", "--set", "train.global_batch=64"]),
    ("vit", ["vit-fashion-mnist", "--set", "train.global_batch=64"]),
    ("ranks resnet", ["resnet18-mnist", "--workers", "2", "--set", "train.global_batch=128"]),
    ("ranks", ["vit-fashion-mnist", "--workers", "2", "--set", "train.global_batch=128"]),
    ("tp", ["RECIPE", "--workers", "4"]),
    ("", ["RECIPE"]),
)


def planned(build, row, folder):
    """(GFLOPs, seconds) of a step of a rank, as `lockstep plan --measure` says: seconds is None where ranks
    share a core."""
    name = row["name"]
    words = [
        os.path.join(folder, "recipe.yaml") if w == "RECIPE" else w
        for w in next(w for prefix, w in PLANNED if name.startswith(prefix))
    ]
    words += ["--threads", str(row["threads"]), "--measure"]
    if not name.startswith(("t5", "qwen", "tp")):
        words += (
            ["--set", "parallel.data=ddp"]
            if "ddp" in name
            else ["--set", "parallel.gather=copy"] if name.startswith("ranks") else []
        )
        words += ["--set", f"precision.param={row['dtype']}"]
    program, cache = os.path.join(build, "lockstep"), {
        **os.environ,
        "XDG_CACHE_HOME": os.path.join(folder, "measured"),
    }  # nothing of a busier day
    if not os.path.exists(cache["XDG_CACHE_HOME"]):
        subprocess.run([program, "doctor"], check=True, capture_output=True, env=cache)
    text = subprocess.run(
        [program, "plan", *words, "--json"], check=True, capture_output=True, text=True, env=cache
    ).stdout
    rank = json.loads(text)["rank"]
    return rank["flops"] / 1e9, None if name.startswith("tp") else rank["seconds"]


def measure(build, row, bound, folder, options):
    before, load = ticks(), os.getloadavg()[0]
    rounds = options.rounds or row["rounds"]
    ours = row["ours"](folder)
    result = {
        "text": row["text"],
        "threads": row["threads"],
        "dtype": row["dtype"],
        "rounds": rounds,
        "steps": row["steps"],
        "peers": {},
    }
    mine, bursts, answer = [], [], {}
    for mode, start in ({} if options.no_torch else row["modes"]).items() or [("", None)]:
        try:
            theirs = start(folder) if start else None
        except (
            Ended
        ) as e:  # a mode that PyTorch cannot run here is not a mode of its, and the table says nothing of it
            print(f"{row['name']:18} PyTorch {mode:22} fails: {e}", flush=True)
            result.setdefault("failed", []).append(mode)
            continue
        pairs = []
        for _ in range(rounds):
            bursts.append(bound.ask(row["threads"], row["dtype"]))
            answer = ours.ask(row["steps"])
            mine.append(answer["median"])
            if theirs:
                peer = theirs.ask(row["steps"])
                pairs.append((peer["median"], answer["median"], peer["peak_rss_mb"]))
        if theirs:
            result["torch"] = theirs.ready.get("torch")
            theirs.close()
            ratios = [a / b for a, b, _ in pairs]
            result["peers"][mode] = {
                "seconds": middle([a for a, _, _ in pairs]),
                "least": min(a for a, _, _ in pairs),
                "ratio": middle(ratios),
                "ratios": [min(ratios), max(ratios)],
                "peak_rss_mb": pairs[-1][2],
            }
            print(
                f"{row['name']:18} PyTorch {mode:22} {1e3 * middle([a for a, _, _ in pairs]):10.1f} ms   Lockstep {1e3 * middle([b for _, b, _ in pairs]):10.1f} ms   "
                f"ratio {middle(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                flush=True,
            )
    ours.close()
    if not mine:  # nothing that PyTorch could run, so no turns
        return None
    work, expected = planned(build, row, folder)
    if not 0.99 < answer.get("gflop", work) / work < 1.01:
        sys.exit(
            f"{row['name']}: the step has {answer['gflop']} GFLOPs, and `lockstep plan` counts {work}: PLANNED has another recipe"
        )
    after = ticks()
    total = sum(b - a for a, b in zip(before, after))
    rates = [b["gflops"] for b in bursts]
    result |= {
        "seconds": middle(mine),
        "least": min(mine),
        "most": max(mine),
        "peak_rss_mb": answer["peak_rss_mb"],
        "gflop": work,
        "planned": expected,
        "burst_gflops": middle(rates),
        "of_bound": work / middle(mine) / middle(rates),
        "load_before": load,
        "steal": (after[7] - before[7]) / total,
        "quiet": statistics.mean(b["mean"] for b in bursts) / max(rates),
        "when": stamp(),
    }
    if result["peers"]:
        result["best"] = min(result["peers"], key=lambda m: result["peers"][m]["seconds"])
    print(
        f"{row['name']:18} Lockstep {1e3 * result['seconds']:10.1f} ms ({1e3 * result['least']:.1f} to {1e3 * result['most']:.1f}), {100 * result['of_bound']:.0f} % of the bound, "
        f"planned {1e3 * (expected or 0):.1f} ms; {result['peak_rss_mb']:.0f} MB; load {load:.1f}, steal {100 * result['steal']:.1f} %, "
        f"bursts at {100 * result['quiet']:.0f} % of their best",
        flush=True,
    )
    return result


def stamp():
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime())


def of_pairs(text, mode, threads, pairs):
    """A row of (PyTorch's seconds, ours) for each round."""
    mine, theirs = [b for _, b in pairs], [a for a, _ in pairs if a]
    row = {
        "text": text,
        "threads": threads,
        "seconds": middle(mine),
        "least": min(mine),
        "most": max(mine),
        "rounds": len(pairs),
        "peers": {},
        "when": stamp(),
    }
    if theirs:
        ratios = [a / b for a, b in pairs]
        row |= {
            "best": mode,
            "peers": {
                mode: {
                    "seconds": middle(theirs),
                    "ratio": middle(ratios),
                    "ratios": [min(ratios), max(ratios)],
                }
            },
        }
    print(
        f"{text:60} Lockstep {1e3 * row['seconds']:.1f} ms"
        + (f", {mode} {1e3 * middle(theirs):.1f} ms, ratio {middle(ratios):.2f}" if theirs else ""),
        flush=True,
    )
    return row


def generations(build, options, wanted, peer):
    """A prompt of 512 tokens read, and a token made behind it, by a model of Qwen2.5-0.5B's sizes: beside
    transformers (rows "generate") or llama.cpp (rows "llama")."""
    word = "llama" if peer == "llama.cpp" else "generate"
    script = "llama_generate.py" if peer == "llama.cpp" else "torch_generate.py"
    ways = [
        (dtype, threads)
        for dtype in ("f32", "bf16")
        for threads in (1, 2)
        if wanted(f"{word} {dtype} {threads}")
    ]
    if not ways or options.no_torch:  # transformers makes the model's folder
        return {}
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, os.path.join(HERE, "peer.py"), "qwen2.5-0.5b", "--save", folder], check=True
        )
        for dtype, threads in ways:
            words = [
                folder,
                "--threads",
                str(threads),
                "--dtype",
                dtype,
                "--prompt",
                "512",
                "--tokens",
                "16",
                "--serve",
            ]
            servers = [
                Server(sys.executable, os.path.join(HERE, script), *words),
                Server(os.path.join(build, "bench", "bench_generate"), *words),
            ]
            rounds = [[s.ask("go") for s in servers] for _ in range(options.rounds or 3)]
            for s in servers:
                s.close()
            out[f"{word} {dtype} {threads} prompt"] = of_pairs(
                f"Qwen2.5-0.5B reads a prompt of 512 tokens, {dtype}",
                peer,
                threads,
                [[min(a["prompt"]) for a in pair] for pair in rounds],
            )
            out[f"{word} {dtype} {threads} token"] = of_pairs(
                f"and makes a token behind it, {dtype}",
                peer,
                threads,
                [[a["token"] for a in pair] for pair in rounds],
            )
    return out


def checkpoints(build, options):
    """1.2 GB of model and Adam's moments over two ranks, saved and loaded in memory. What the memory of a
    virtual machine costs at first is nobody's speed
    (compare_checkpoint.py), so a file is written before each turn."""
    from compare_checkpoint import WARM, dd

    out, rounds = {}, options.rounds or 5
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        ours = Server(os.path.join(build, "bench", "bench_checkpoint"), folder, "--serve")
        theirs = (
            None
            if options.no_torch
            else Server(sys.executable, os.path.join(HERE, "torch_checkpoint.py"), folder, "--serve")
        )
        rows = []
        for _ in range(rounds + 1):
            turn = []
            for server in (theirs, ours):
                dd(folder, WARM, sync=False)
                turn.append(server.ask("round") if server else None)
            rows.append(turn)
        for server in filter(None, (theirs, ours)):
            server.close()
    for key, text in (
        ("save", "saving 1.2 GB over two ranks with checksums (PyTorch's without)"),
        ("load", "loading it"),
    ):
        out[f"checkpoint {key}"] = of_pairs(
            text, "DCP", 1, [(a and a[key] * b["bytes"] / a["bytes"], b[key]) for a, b in rows[1:]]
        )
    return out


def start_up(build, options):
    """From exec to the first step of tutorial 1, cached."""
    import startup

    out = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            seen = [
                startup.start(os.path.join(build, "lockstep"), workers, folder)[0]
                for _ in range((options.rounds or 10) + 1)
            ][1:]
        text = f"from exec to the first step, {workers} process{'es' if workers > 1 else ''}, data cached"
        out[f"start {workers}"] = of_pairs(text, "", 1, [(None, x / 1e3) for x in seen])
    return out


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=0, help="of every row, in place of its own number")
    parser.add_argument("--results", default=os.path.join(HERE, "results.json"))
    parser.add_argument("--no-torch", action="store_true", help="only Lockstep")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    wanted = lambda name: not options.only or any(word in name for word in options.only)  # noqa: E731
    bound = Server(os.path.join(build, "bench", "bench_bound"))
    machines, results = load(options.results, machine(bound))
    with tempfile.TemporaryDirectory() as folder:
        corpora(folder)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(
            folder, "compiled"
        )  # a run that was killed leaves half of a file in the usual one
        for row in filter(lambda r: wanted(r["name"]), rows(build)):
            measured = measure(build, row, bound, folder, options)
            if not measured:
                continue
            results["rows"][row["name"]] = measured
            results["torch"] = measured.pop("torch", None) or results.get("torch")
            save(options.results, machines)
    results["rows"] |= generations(build, options, wanted, "transformers")
    save(options.results, machines)
    if any("llama" in word for word in options.only):  # printed, and not kept: README's table compares with PyTorch
        generations(build, options, wanted, "llama.cpp")
    if wanted("checkpoint"):
        results["rows"] |= checkpoints(build, options)
        save(options.results, machines)
    if wanted("start") and os.environ.get("LOCKSTEP_DATA"):
        results["rows"] |= start_up(build, options)
        save(options.results, machines)


if __name__ == "__main__":
    main()
