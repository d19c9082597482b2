#!/usr/bin/env python3
"""Device cuda beside PyTorch on the same card, in one go: kernels, the training steps of the four tutorials,
and what the card gives to a copy and to a product. tools/gpu_check.sh runs it; it needs no network.

    python bench/gpu.py --carried .gpu [--seconds 300] [--only WORD ...] [--json FILE]

--carried: what `make gpu-carry` made. Each row is printed when it is measured, ours and PyTorch's eager,
compiled (torch.compile) and overhead (torch.compile with mode="reduce-overhead"), in milliseconds. When the
time is up the rest is left out. Data are random, or text in bytes; no step's time depends on them."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rows import PAIRS, TEXT  # noqa: E402

MODES = ("eager", "compiled", "overhead")
# name: batch, the recipe with its settings, and whether PyTorch may use tf32
STEPS = {
    "vit f32": ("vit", 128, ["vit-fashion-mnist"], False),
    "vit tf32": ("vit", 128, ["vit-fashion-mnist", "kernels=tf32"], True),
    "resnet18 f32": ("resnet18", 128, ["resnet18-mnist"], False),
    "resnet18 tf32": ("resnet18", 128, ["resnet18-mnist", "kernels=tf32"], True),
    "qwen 1 x 512 bf16": ("qwen2.5-0.5b", 1, [TEXT, "data.seq_length=512"], False),
    "t5 4 x (512, 150) bf16": ("t5-base", 4, [PAIRS], False),
    "qwen 8 x 1024 bf16": ("qwen2.5-0.5b", 8, [TEXT, "data.seq_length=1024"], False),
}


class Report:
    def __init__(self, options):
        self.rows, self.options, self.end = {}, options, time.monotonic() + options.seconds

    def left(self):
        return self.end - time.monotonic()

    def wanted(self, name):
        return not self.options.only or any(word in name for word in self.options.only)

    def add(self, name, who, milliseconds, note=""):
        self.rows.setdefault(name, {})[who] = milliseconds
        print(f"{name:28} {who:9} {milliseconds:10.4f} ms  {note}", flush=True)
        if self.options.json:
            with open(self.options.json, "w", encoding="utf-8") as f:
                json.dump(self.rows, f, indent=1)


# ---- kernels


def milliseconds(work, rounds=20):
    import torch

    times = []
    for r in range(rounds + 2):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        if r > 1:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def kernels():
    """The cases of bench/gpu.c: name, what PyTorch does."""
    import torch
    import torch.nn.functional as F

    bf16, f32 = torch.bfloat16, torch.float32
    full = lambda dtype, *shape: torch.full(shape, 0.0115, dtype=dtype, device="cuda")  # noqa: E731

    def copy():
        a, b = full(f32, 1 << 28), full(f32, 1 << 28)
        return lambda: b.copy_(a)

    def product(dtype, m, k, n, tf32=False):
        def make():
            torch.set_float32_matmul_precision("high" if tf32 else "highest")
            x, w = full(dtype, m, k), full(dtype, n, k)
            return lambda: F.linear(x, w)

        return make

    def attention(gradient):
        def make():
            q, k, v = (torch.randn(8, h, 1024, 64, dtype=bf16, device="cuda") for h in (14, 14, 14))
            if not gradient:
                return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
            for x in (q, k, v):
                x.requires_grad_()
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            dy = torch.ones_like(y)
            return lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)

        return make

    def layer_norm():
        x, w, b = full(f32, 8192, 768), full(f32, 768), full(f32, 768)
        return lambda: F.layer_norm(x, (768,), w, b)

    def rms_norm():
        x, w = full(bf16, 8192, 896), full(bf16, 896)
        return lambda: F.rms_norm(x, (896,), w)

    def softmax():
        x = full(f32, 8192, 1024)
        return lambda: F.softmax(x, -1)

    def adam():
        p = full(f32, 64 << 20).requires_grad_()
        p.grad = full(f32, 64 << 20)
        optimizer = torch.optim.AdamW([p], lr=1e-5, fused=True)
        return optimizer.step

    return {
        "copy": copy,
        "product bf16": product(bf16, 4096, 4096, 4096),
        "product f32": product(f32, 4096, 4096, 4096),
        "product tf32": product(f32, 4096, 4096, 4096, True),
        "mlp bf16": product(bf16, 8192, 896, 4864),
        "attention bf16": attention(False),
        "attention gradient bf16": attention(True),
        "layer norm f32": layer_norm,
        "rms norm bf16": rms_norm,
        "softmax f32": softmax,
        "adam f32": adam,
    }


def measure_kernels(report):
    program = os.path.join(report.options.carried, "bench_gpu")
    lines = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=max(report.left(), 1), check=False)
    for line in lines.stdout.splitlines():
        row = json.loads(line)
        note = f"{row['gb_per_s']:8.0f} GB/s {row['tflops']:8.1f} TFLOP/s"
        report.add(row["name"], "ours", row["ms"], note)
    import torch

    for name, make in kernels().items():
        if report.wanted(name) and report.left() > 5:
            report.add(name, "eager", milliseconds(make()))
            torch.cuda.empty_cache()


# ---- training steps


def ours(report, name, words, batch):
    """The median of a run's later steps. Its first steps compile kernels."""
    recipe, *sets = words
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(report.options.carried, "data", "wikitext-2", "valid.txt")
        if "\n" in recipe:
            with open(text, encoding="utf-8") as f:
                lines = [line.strip() for line in f if len(line) > 700]
            with open(os.path.join(folder, "text.txt"), "w", encoding="utf-8") as f:
                f.write("\n".join(lines * 8))
            with open(os.path.join(folder, "pairs.jsonl"), "w", encoding="utf-8") as f:
                for line in lines * 8:
                    print(json.dumps({"source": line, "target": line[:600]}), file=f)
            path = os.path.join(folder, "recipe.yaml")
            with open(path, "w", encoding="utf-8") as f:
                f.write(recipe.format(folder=folder, dtype="bf16", threads=8))
            recipe, steps = path, 30
        else:
            steps = 300
        sets += [
            "device=cuda",
            "workers=1",
            f"train.steps={steps}",
            f"train.global_batch={batch}",
            f"run.storage={folder}/runs",
            "run.name=bench",
            "eval.every_epochs=-1",
            "checkpoint.every_epochs=-1",
        ]
        command = [os.path.join(report.options.carried, "lockstep"), "train", recipe, "--no-progress"]
        done = subprocess.run(
            command + [w for s in sets for w in ("--set", s)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=max(report.left(), 1),
            check=False,
        )
        if done.returncode:
            print(f"{name:28} ours      failed: {done.stderr.strip()[-300:]}", flush=True)
            return
        with open(os.path.join(folder, "runs", "bench", "metrics.jsonl"), encoding="utf-8") as f:
            seconds = [row["seconds"] for row in map(json.loads, f) if row["kind"] == "step"]
        report.add(name, "ours", 1e3 * statistics.median(seconds[len(seconds) // 2 :]))


def theirs(model, batch, mode, tf32, length):
    """In a process of its own: prints the median in milliseconds."""
    import torch

    import peer

    peer.TOKENS = length
    torch.set_default_device("cuda")
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    options = argparse.Namespace(model=model, batch=batch, size=28)
    picture = model in peer.PICTURES
    net, loss_of, optimizer_class = peer.pictures(options, ["eager"]) if picture else peer.language(options)
    net = net.to("cuda") if picture else net.to("cuda", torch.bfloat16)
    optimizer = optimizer_class(net.parameters(), lr=1e-5, fused=True)
    if mode != "eager":
        net = torch.compile(net, mode="reduce-overhead" if mode == "overhead" else None)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(net)
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(8):
        step()
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    print(1e3 * statistics.median(times))


def measure_steps(report):
    for name, (model, batch, words, tf32) in STEPS.items():
        if not report.wanted(name):
            continue
        if report.left() < 15:
            print(f"{name:28} no time left", flush=True)
            continue
        try:
            ours(report, name, words, batch)
        except subprocess.TimeoutExpired:
            print(f"{name:28} ours      too long", flush=True)
        length = "1024" if "1024" in name else "512"
        for mode in MODES:
            if report.left() < 15:
                break
            command = [sys.executable, __file__, "--peer", model, str(batch), mode, str(int(tf32)), length]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=report.left(), check=True
                )
                report.add(name, mode, float(done.stdout.split()[-1]))
            except subprocess.TimeoutExpired:
                print(f"{name:28} {mode:9} too long", flush=True)
            except subprocess.CalledProcessError as error:
                print(f"{name:28} {mode:9} failed: {error.stderr.strip()[-200:]}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--carried", default=".gpu")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--json")
    parser.add_argument("--peer", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        model, batch, mode, tf32, length = options.peer
        theirs(model, int(batch), mode, tf32 == "1", int(length))
        return
    report = Report(options)
    measure_kernels(report)
    measure_steps(report)
    both = [n for n, row in report.rows.items() if "ours" in row and len(row) > 1]
    behind = [n for n in both if report.rows[n]["ours"] > min(v for w, v in report.rows[n].items() if w != "ours")]
    print(f"{len(both)} rows beside PyTorch, behind in {len(behind)}: {', '.join(behind) or 'none'}")


if __name__ == "__main__":
    main()
