#!/usr/bin/env python3
"""The same training run by PyTorch and by lockstep, from the same weights, compared in full. See `make
parity`.

    python tools/parity.py [--lockstep build/lockstep] [--steps 50] [--batch 128] [--only NAME ...] [--keep
    FOLDER]

PyTorch runs in float32 on one thread and in float64 (the truth), and, where a run over ranks is compared with
it, at two ranks over gloo with DDP
and FSDP2. lockstep then runs the recipe in several ways; each must have every loss within 1e-5 of its PyTorch
float32 counterpart and every weight
tensor within 1e-3 of the distance it travelled (2-norms; the K part of in_proj_bias is left out: its gradient
is zero in exact arithmetic and
Adam makes steps of noise). Exit status 1 if one has not."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools", "golden"))
from common import fashion_mnist, fill, normalize  # noqa: E402
from vit import VisionTransformer  # noqa: E402
import ranks as several  # noqa: E402

LOSS_TOLERANCE, WEIGHT_TOLERANCE = 1e-5, 1e-3
BF16_TOLERANCE = 2e-2  # of a loss: bf16 keeps 8 bits, and the two round in different places
RUNS = {  # name: which run of PyTorch, and what differs from the base recipe
    "1 thread": ("f32", {"threads": 1}),
    "2 threads": ("f32", {"threads": 2}),
    "2 micro-batches": ("f32", {"threads": 1, "train.micro_batch": "half"}),
    "4 micro-batches, recompute": (
        "f32",
        {"threads": 2, "train.micro_batch": "quarter", "parallel.recompute": "units"},
    ),
    "generic code": ("f32", {"threads": 2, "isa": "generic"}),
    "avx2": ("f32", {"threads": 2, "isa": "avx2"}),
    "avx512": ("f32", {"threads": 2, "isa": "avx512"}),
    "bf16": ("bf16", {"threads": 2, "precision.param": "bf16"}),
    "2 ranks, ddp": ("ddp", {"workers": 2, "parallel.data": "ddp"}),
    "2 ranks, fsdp, mapped": ("fsdp", {"workers": 2, "parallel.data": "fsdp", "parallel.gather": "map"}),
    "2 ranks, fsdp, copied": ("fsdp", {"workers": 2, "parallel.data": "fsdp", "parallel.gather": "copy"}),
    "4 ranks, fsdp, copied": ("fsdp", {"workers": 4, "parallel.data": "fsdp", "parallel.gather": "copy"}),
    "2 ranks, fsdp, bf16": ("fsdp_bf16", {"workers": 2, "parallel.data": "fsdp", "precision.param": "bf16"}),
}
RECIPE = """\
run: {{name: {name}, storage: "{storage}"}}
workers: 1
model: {{type: vit, image_size: 28, patch_size: 7, in_channels: 1, layers: 10, heads: 2, hidden_size: 128, mlp_size: 128, classes: 10, init: "{init}"}}
data: {{type: fashion-mnist, path: "{data}", shuffle: false}}
train: {{epochs: 1, steps: {steps}, global_batch: {batch}, micro_batch: {batch}}}
optimizer: {{type: adam, lr: 1e-3}}
eval: {{every_epochs: 0}}
parallel: {{units: "class:EncoderBlock"}}
"""


def run_torch(images, labels, batch, steps, dtype, compute=None):
    """Losses, and the weights afterwards as float64 by name. compute: type of the cast parameters (FSDP2's
    param_dtype)."""
    x, model = normalize(images, dtype), fill(VisionTransformer().to(dtype))
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-3), []
    for k in range(steps):
        at = slice(k * batch, (k + 1) * batch)
        if compute:
            cast = {name: p.to(compute) for name, p in model.named_parameters()}
            logits = torch.func.functional_call(model, cast, (x[at].to(compute),)).to(dtype)
        else:
            logits = model(x[at])
        loss = F.cross_entropy(logits, labels[at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64), {
        n: p.detach().double() for n, p in model.named_parameters()
    }


def counterpart(name, images, labels, options):
    """PyTorch's losses and weights for one of RUNS."""
    if name in several.STRATEGIES:
        return several.run(2, several.train, name, images, labels, options.batch, options.steps)
    return run_torch(
        images,
        labels,
        options.batch,
        options.steps,
        torch.float32,
        torch.bfloat16 if name == "bf16" else None,
    )


def run_lockstep(options, folder, name, changes):
    recipe = os.path.join(folder, name + ".yaml")
    with open(recipe, "w") as f:
        f.write(
            RECIPE.format(
                name=name,
                storage=os.path.join(folder, "runs"),
                init=os.path.join(folder, "init.safetensors"),
                data=options.data,
                steps=options.steps,
                batch=options.batch,
            )
        )
    command = [options.lockstep, "train", recipe, "-q", "--no-progress", "--resume", "never"]
    if "workers" in changes:  # one micro-batch and one thread a rank
        changes = {"threads": 1, "train.micro_batch": options.batch // changes["workers"], **changes}
    for key, value in changes.items():
        value = {"half": options.batch // 2, "quarter": options.batch // 4}.get(value, value)
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
    run = os.path.join(folder, "runs", name)
    with open(os.path.join(run, "metrics.jsonl")) as f:
        rows = [json.loads(line) for line in f]
    losses = {row["step"]: row["loss"] for row in rows if row["kind"] == "step"}
    if sorted(losses) != list(range(1, options.steps + 1)):
        return None, f"metrics.jsonl has rows for {len(losses)} steps, {options.steps} were asked for"
    weights = load_file(os.path.join(run, "checkpoints", "latest", "model.safetensors"))
    return torch.tensor([losses[k + 1] for k in range(options.steps)], dtype=torch.float64), {
        n: w.double() for n, w in weights.items()
    }


def weight_errors(ours, theirs, initial):
    """Per tensor, the difference as a fraction of the distance that PyTorch's tensor travelled."""
    errors = {}
    for name, want in theirs.items():
        difference, moved = ours[name] - want, want - initial[name]
        if name.endswith("in_proj_bias"):
            third = want.numel() // 3
            difference[third : 2 * third] = moved[third : 2 * third] = 0
        errors[name] = (difference.norm() / moved.norm()).item()
    return errors


def row(name, losses, weights, reference, initial):
    """One line of the table: what is worst. Returns (largest loss difference, largest weight error)."""
    loss = (losses - reference[0]).abs()
    errors = weight_errors(weights, reference[1], initial)
    worst = max(errors, key=errors.get)
    print(
        f"{name:28} {loss[0]:10.2e} {loss.max():10.2e} at {int(loss.argmax()) + 1:3} {errors[worst]:10.2e}  {worst}",
        end="",
    )
    return loss.max().item(), errors[worst]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lockstep", default=os.path.join(ROOT, "build", "lockstep"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument(
        "--only", nargs="+", choices=list(RUNS), metavar="NAME", help="some of: " + ", ".join(RUNS)
    )
    parser.add_argument("--keep", metavar="FOLDER", help="leave recipes, runs and weights there")
    options = parser.parse_args()
    data = os.environ.get("LOCKSTEP_DATA")
    if not data or not os.path.isdir(os.path.join(data, "fashion-mnist")):
        sys.exit("parity: LOCKSTEP_DATA must name a folder that holds fashion-mnist/")
    if not os.access(options.lockstep, os.X_OK):
        sys.exit(f"parity: {options.lockstep} is not there: run make first")
    options.lockstep, options.data = os.path.abspath(options.lockstep), os.path.abspath(data)
    images, labels = (t[: options.steps * options.batch] for t in fashion_mnist("train"))
    torch.set_num_threads(1)

    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.abspath(options.keep or temporary)
        os.makedirs(folder, exist_ok=True)
        first = fill(VisionTransformer())
        save_file(
            {n: p.detach() for n, p in first.named_parameters()},
            os.path.join(folder, "init.safetensors"),
            {"format": "pt"},
        )
        initial = {n: p.detach().double() for n, p in first.named_parameters()}
        print(
            f"{options.steps} steps of {options.batch}, Adam 1e-3, PyTorch {torch.__version__}: differences from its float32 run\n"
        )
        print(f"{'':28} {'loss':>10} {'loss':>17} {'weights':>11}")
        print(f"{'':28} {'step 1':>10} {'largest':>10} {'step':>6} {'largest':>11}  tensor")
        references = {"f32": counterpart("f32", images, labels, options)}
        row(
            "PyTorch float64",
            *run_torch(images, labels, options.batch, options.steps, torch.float64),
            references["f32"],
            initial,
        )
        print()
        failed = 0
        for name in options.only or RUNS:
            wanted, changes = RUNS[name]
            if wanted not in references:
                references[wanted] = counterpart(wanted, images, labels, options)
                row(f"PyTorch {wanted}", *references[wanted], references["f32"], initial)
                print()
            losses, weights = run_lockstep(options, folder, name.replace(" ", "-").replace(",", ""), changes)
            if losses is None and "isa" in changes and changes["isa"] in weights:
                print(f"{name:28} not on this machine: {weights}")
                continue
            if losses is None:
                print(f"{name:28} FAILED: {weights}")
                failed += 1
                continue
            if "bf16" in wanted:
                difference = (losses - references[wanted][0]).abs().max().item()
                good = difference <= BF16_TOLERANCE
                row(name, losses, weights, references["f32"], initial)
                print(
                    f"; losses within {difference:.2e} of PyTorch's {wanted} {'ok' if good else f'(allowed {BF16_TOLERANCE}) FAILED'}"
                )
            else:
                loss, weight = row(name, losses, weights, references[wanted], initial)
                good = loss <= LOSS_TOLERANCE and weight <= WEIGHT_TOLERANCE
                print("  ok" if good else f"  FAILED (allowed {LOSS_TOLERANCE} and {WEIGHT_TOLERANCE})")
            failed += not good
        sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
