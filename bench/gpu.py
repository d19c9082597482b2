#!/usr/bin/env python3
"""Device cuda beside PyTorch on the same card, in one go: kernels, the training steps of the four tutorials,
and what the card gives to a copy and to a product. tools/gpu_check.sh runs it; it needs no network, and of
Python's packages only PyTorch.

    python bench/gpu.py --carried FOLDER [--seconds 300] [--only WORD ...] [--out FOLDER] [--smoke]

--carried: what the archive of `make gpu-carry` has. Each row is Lockstep's and PyTorch's, eager, compiled
(torch.compile) and overhead (torch.compile with mode="reduce-overhead"), measured one after the other; it is
printed at once and goes into bench.json and bench.md of --out. A later call goes on with the rows that are
not complete there. Exit status: 0; 1: something failed; 124: rows are left for which there was no time.
--smoke: the whole of it on the CPU, at sizes that say nothing about speed, and without ratios."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

from gpu_kernels import measure_kernels

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = ("eager", "compiled", "overhead")
VIT = {"layers": 10, "heads": 2, "hidden_size": 128, "mlp_size": 128}
QWEN = {
    "vocab_size": 151936,
    "layers": 24,
    "heads": 14,
    "kv_heads": 2,
    "hidden_size": 896,
    "mlp_size": 4864,
}
T5 = {"vocab_size": 32128, "layers": 12, "heads": 12, "hidden_size": 768, "mlp_size": 3072}
T5_TOKENS = {"source_length": 512, "target_length": 150}
# The most useful first. name: model, its sizes, batch, whether products of f32 may round to tf32
STEPS = {
    "vit f32, 128 images": ("vit", VIT, 128, False),
    "qwen2.5-0.5b bf16, 1 x 512": ("qwen2", {**QWEN, "tokens": 512}, 1, False),
    "resnet18 f32, 128 images": ("resnet18", {}, 128, False),
    "t5-base bf16, 4 x (512, 150)": ("t5", {**T5, **T5_TOKENS}, 4, False),
    "qwen2.5-0.5b bf16, 8 x 1024": ("qwen2", {**QWEN, "tokens": 1024}, 8, False),
    "vit tf32, 128 images": ("vit", VIT, 128, True),
    "resnet18 tf32, 128 images": ("resnet18", {}, 128, True),
}
TINY = {"vocab_size": 300, "layers": 1, "heads": 2, "hidden_size": 32, "mlp_size": 48}
SMOKE = {
    "vit f32": ("vit", {"layers": 1, "heads": 2, "hidden_size": 16, "mlp_size": 16}, 2, False),
    "qwen2 bf16": ("qwen2", {**TINY, "kv_heads": 1, "tokens": 16}, 1, False),
    "resnet18 f32": ("resnet18", {}, 2, False),
    "t5 bf16": ("t5", {**TINY, "source_length": 16, "target_length": 6}, 2, False),
}
PEAK = 989e12  # FLOP/s of products of bf16 that an H100 or H200 has by its data sheet


class Report:
    """Rows: name to {"kind", "ms": {who: milliseconds}, "complete", ...}"""

    def __init__(self, options):
        self.options, self.end = options, time.monotonic() + options.seconds
        self.rows, self.failed, self.skipped = {}, 0, 0
        self.json = os.path.join(options.out, "bench.json")
        self.card = "no GPU" if options.smoke else torch.cuda.get_device_name(0)
        if os.path.exists(self.json):
            with open(self.json, encoding="utf-8") as f:
                self.rows = json.load(f)

    def left(self):
        return self.end - time.monotonic()

    def begin(self, name, kind):
        """The row, empty; None: it is complete, not asked for, or there is no time."""
        if self.options.only and not any(word in name for word in self.options.only):
            return None
        if self.rows.get(name, {}).get("complete"):
            return None
        if self.left() < 10:
            self.skipped += 1
            return None
        self.rows[name] = {"kind": kind, "ms": {}, "card": self.card, "torch": torch.__version__}
        return self.rows[name]

    def add(self, name, who, milliseconds, note=""):
        self.rows[name]["ms"][who] = milliseconds
        print(f"{name:30} {who:9} {milliseconds:10.4f} ms  {note}", flush=True)

    def fail(self, name, who, why):
        self.failed += 1
        self.rows[name].setdefault("failed", {})[who] = why.strip()[-300:]
        print(f"{name:30} {who:9} failed: {why.strip()[-300:]}", flush=True)

    def done(self, name, complete=True):
        self.rows[name]["complete"] = complete and "failed" not in self.rows[name]
        with open(self.json, "w", encoding="utf-8") as f:
            json.dump(self.rows, f, indent=1)
        with open(os.path.join(self.options.out, "bench.md"), "w", encoding="utf-8") as f:
            f.write(table(self.rows, self.options.smoke))


# ---- the table


def goal_of(name, row, copy):
    """What is reached, and the goal of it. Times: PyTorch's by ours, so 1 is as fast."""
    ms = row["ms"]
    ours = ms.get("ours")
    if not ours:
        return []
    if row["kind"] == "kernel":
        if name.startswith(("product", "attention")):
            share = 0.6 if name.startswith("product") else 0.7
            return [("of PyTorch's speed", ms["eager"] / ours, share)] if "eager" in ms else []
        return [("of the copy's rate", row["gb_per_s"] / copy, 0.8)] if copy and name != "copy" else []
    found = [("of torch.compile's speed", ms["compiled"] / ours, 1)] if "compiled" in ms else []
    if name.startswith("vit") and "overhead" in ms:
        found.append(("of reduce-overhead's speed", ms["overhead"] / ours, 1))
    if name.endswith("8 x 1024"):
        found.append(("of the card's peak", row["flops"] / (1e-3 * ours) / PEAK, 0.45))
    return found


def goals(rows):
    """(name, what, reached, goal)"""
    copy = rows.get("copy", {}).get("gb_per_s")
    return [(name, *goal) for name, row in rows.items() for goal in goal_of(name, row, copy)]


def table(rows, smoke):
    lines = (
        ["Run on the CPU, at sizes that say nothing about speed: no figures of a GPU.", ""] if smoke else []
    )
    lines += [
        "| what | Lockstep | eager | torch.compile | reduce-overhead | card |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        cells = (f"{row['ms'][w]:.3f} ms" if w in row["ms"] else "-" for w in ("ours", *MODES))
        rate = f", {row['gb_per_s']:.0f} GB/s, {row['tflops']:.0f} TFLOP/s" if "gb_per_s" in row else ""
        lines.append(f"| {name}{'' if smoke else rate} | {' | '.join(cells)} | {row['card']} |")
    if not smoke:
        lines += ["", "| what | reached | goal | |", "|---|---|---|---|"]
        for name, what, reached, goal in goals(rows):
            word = "met" if reached >= goal else "**missed**"
            lines.append(f"| {name} | {100 * reached:.0f} % {what} | {100 * goal:.0f} % | {word} |")
    return "\n".join(lines) + "\n"


# ---- training steps


def recipe_of(folder, model, sizes, text):
    """The settings of a recipe for a model of these sizes; what only a batch has is under `data`."""
    if model in ("vit", "resnet18"):
        name = {"vit": "vit-fashion-mnist", "resnet18": "resnet18-mnist"}[model]
        return name, [f"model.{key}={value}" for key, value in sizes.items()]
    with open(text, encoding="utf-8") as f:
        lines = sorted((line.strip() for line in f), key=len)[-100:]
    size = {k: v for k, v in sizes.items() if k not in ("tokens", *T5_TOKENS)}
    if model == "qwen2":
        size.update(norm_eps=1e-6, rope_theta=1e6)
        file, data = "text.txt", {"type": "text", "documents": "file", "seq_length": sizes["tokens"]}
        body = "\n".join(lines * 8)
    else:
        file, data = "pairs.jsonl", {"type": "pairs", **{k: sizes[k] for k in T5_TOKENS}}
        body = "\n".join(json.dumps({"source": line, "target": line[:600]}) for line in lines * 8)
    with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
        f.write(body)
    data.update(
        tokenizer="bytes", train_text=os.path.join(folder, file), eval_text=os.path.join(folder, file)
    )
    recipe = {"model": {"type": model, "tied": True, **size}, "data": data, "precision": {"param": "bf16"}}
    recipe["optimizer"] = {"type": "adamw", "lr": 1e-5}
    path = os.path.join(folder, "recipe.yaml")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(recipe, f)  # (JSON is YAML)
    return path, []


def lockstep(report, words):
    path = report.options.libraries
    env = {**os.environ, **({"LD_LIBRARY_PATH": path} if path is not None else {})}
    command = [os.path.join(report.options.carried, "lockstep"), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, timeout=max(report.left(), 1), check=False
    )
    if done.returncode:
        raise RuntimeError(f"lockstep {words[0]}: {done.stderr}")
    return done.stdout


def ours(report, name, row):
    """The median of a run's later steps. Its first steps compile kernels."""
    model, sizes, batch, tf32 = report.steps[name]
    smoke = report.options.smoke
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(report.options.carried, "data", "wikitext-2", "valid.txt")
        recipe, sets = recipe_of(folder, model, sizes, text)
        steps = 4 if smoke else 300 if model in ("vit", "resnet18") else 30
        sets += [f"train.steps={steps}", f"train.global_batch={batch}", f"run.storage={folder}/runs"]
        sets += ["workers=1", "run.name=bench", "eval.every_epochs=-1", "checkpoint.every_epochs=-1"]
        sets += ["device=cpu" if smoke else "device=cuda", "parallel.mesh={dp: auto}"]
        sets += ["kernels=tf32"] if tf32 else []
        words = [word for s in sets for word in ("--set", s)]
        plan = json.loads(lockstep(report, ["plan", recipe, "--json", *words]))
        row["parameters"], row["flops"] = plan["parameters"], plan["rank"]["flops"]
        lockstep(report, ["train", recipe, "--no-progress", *words])
        with open(os.path.join(folder, "runs", "bench", "metrics.jsonl"), encoding="utf-8") as f:
            seconds = [r["seconds"] for r in map(json.loads, f) if r["kind"] == "step"]
    report.add(name, "ours", 1e3 * statistics.median(seconds[len(seconds) // 2 :]))


def theirs(report, name, row, mode):
    model, sizes, batch, tf32 = report.steps[name]
    smoke = report.options.smoke
    options = {"model": model, "sizes": sizes, "batch": batch, "mode": mode, "tf32": tf32}
    options.update(bf16=model in ("qwen2", "t5"), device="cpu" if smoke else "cuda")
    options.update(warm=1 if smoke else 8, steps=2 if smoke else 30)
    command = [sys.executable, os.path.join(HERE, "gpu_peer.py"), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=max(report.left(), 1), check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer["parameters"] != row.get("parameters", answer["parameters"]):
        raise RuntimeError(f"{answer['parameters']} parameters; Lockstep's model has {row['parameters']}")
    report.add(name, mode, answer["ms"])


def measure_steps(report):
    for name in report.steps:
        row = report.begin(name, "step")
        if row is None:
            continue
        complete = True
        for who in ("ours", *MODES):
            if report.left() < 5:
                complete = False
                break
            try:
                if who == "ours":
                    ours(report, name, row)
                else:
                    theirs(report, name, row, who)
            except subprocess.TimeoutExpired:
                complete = False
            except Exception as error:  # one that fails does not stop the others
                report.fail(name, who, f"{type(error).__name__}: {error}")
        report.skipped += not complete
        report.done(name, complete)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--carried", required=True)
    parser.add_argument("--libraries", help="LD_LIBRARY_PATH of Lockstep's programs (default: this one's)")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out", default=".")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    report = Report(options)
    report.steps = SMOKE if options.smoke else STEPS
    measure_kernels(report)
    measure_steps(report)
    print(table(report.rows, options.smoke))
    found = [] if options.smoke else goals(report.rows)
    met = sum(reached >= goal for _, _, reached, goal in found)
    print(
        f"{len(report.rows)} rows, {report.failed} failures, {report.skipped} without time; "
        + ("on the CPU: no figures of a GPU" if options.smoke else f"{met} of {len(found)} goals met")
    )
    sys.exit(1 if report.failed else 124 if report.skipped else 0)


if __name__ == "__main__":
    main()
