"""The kernels of bench/gpu.c beside PyTorch's, for bench/gpu.py. Both begin behind a fill of 512 MiB, so that
a kernel finds nothing in the card's caches, and its launch waits for no host."""

import json
import os
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

FILL = 512 << 20


def milliseconds(work, device, small):
    """The median of the rounds."""
    fill = torch.empty(1 if small else FILL, dtype=torch.uint8, device=device)
    times = []
    for r in range(3 if small else 22):
        fill.zero_()
        if device == "cpu":
            start = time.perf_counter()
            work()
            times.append(1e3 * (time.perf_counter() - start))
            continue
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        if r > 1:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def cases(device, s):
    """The cases of bench/gpu.c: name, what PyTorch does. s: what sizes are divided by."""
    bf16, f32 = torch.bfloat16, torch.float32
    full = lambda dtype, *shape: torch.full(shape, 0.0115, dtype=dtype, device=device)  # noqa: E731
    n, rows, length, batch = 4096 // s, 8192 // s, 1024 // s, 8 if s == 1 else 1

    def copy():
        a, b = full(f32, (1 << 28) // s // s), full(f32, (1 << 28) // s // s)
        return lambda: b.copy_(a)

    def product(dtype, m, k, out, tf32=False):
        def make():
            torch.set_float32_matmul_precision("high" if tf32 else "highest")
            x, w = full(dtype, m, k), full(dtype, out, k)
            return lambda: torch.matmul(x, w.T)

        return make

    def attention(gradient):
        def make():
            q, k, v = (torch.randn(batch, h, length, 64, dtype=bf16, device=device) for h in (14, 2, 2))
            forward = lambda: F.scaled_dot_product_attention(  # noqa: E731
                q, k, v, is_causal=True, enable_gqa=True
            )
            if not gradient:
                return forward
            for x in (q, k, v):
                x.requires_grad_()
            y = forward()
            dy = torch.ones_like(y)
            return lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)

        return make

    def layer_norm():
        x, w, b = full(f32, rows, 768), full(f32, 768), full(f32, 768)
        return lambda: F.layer_norm(x, (768,), w, b)

    def rms_norm():
        x, w = full(bf16, rows, 896), full(bf16, 896)
        return lambda: F.rms_norm(x, (896,), w)

    def softmax():
        x = full(f32, rows, 1024)
        return lambda: F.softmax(x, -1)

    def adam():
        p = full(f32, (64 << 20) // s // s).requires_grad_()
        p.grad = full(f32, (64 << 20) // s // s)
        return torch.optim.AdamW([p], lr=1e-5, fused=True).step

    return {
        "copy": copy,
        "product bf16": product(bf16, n, n, n),
        "product f32": product(f32, n, n, n),
        "product tf32": product(f32, n, n, n, True),
        "mlp bf16": product(bf16, rows, 896, 4864 // s),
        "attention bf16": attention(False),
        "attention gradient bf16": attention(True),
        "layer norm f32": layer_norm,
        "rms norm bf16": rms_norm,
        "softmax f32": softmax,
        "adam f32": adam,
    }


def ours(report):
    """name: what bench/gpu.c says. All are measured in one go, in a few seconds."""
    options = report.options
    command = [os.path.join(options.carried, "bench_gpu")]
    command += ["--small", "--device", "cpu"] if options.smoke else []
    env = {**os.environ, **({"LD_LIBRARY_PATH": options.libraries} if options.libraries is not None else {})}
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, timeout=max(report.left(), 1), check=False
    )
    print(done.stderr, end="", flush=True)
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


def measure_kernels(report):
    smoke = report.options.smoke
    device = "cpu" if smoke else "cuda"
    found = None
    for name, make in cases(device, 64 if smoke else 1).items():
        row = report.begin(name, "kernel")
        if row is None:
            continue
        try:
            found = ours(report) if found is None else found
        except Exception as error:  # one that fails does not stop the others
            found = {}
            report.fail(name, "ours", f"{type(error).__name__}: {error}")
        if name in found:
            row.update(gb_per_s=found[name]["gb_per_s"], tflops=found[name]["tflops"])
            note = "" if smoke else f"{row['gb_per_s']:8.0f} GB/s {row['tflops']:8.1f} TFLOP/s"
            report.add(name, "ours", found[name]["ms"], note)
        elif not smoke or "tf32" not in name:  # (which a CPU has not)
            report.fail(name, "ours", "bench_gpu did not measure it")
        try:
            report.add(name, "eager", milliseconds(make(), device, smoke))
        except Exception as error:
            report.fail(name, "eager", f"{type(error).__name__}: {error}")
        report.done(name)
        if not smoke:
            torch.cuda.empty_cache()
