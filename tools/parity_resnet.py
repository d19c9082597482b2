#!/usr/bin/env python3
"""How far float32 goes astray in ResNet18 on MNIST, or in ResNet50 on a folder of pictures, PyTorch's and
lockstep's, and whether both read the same of a
picture. Part of `make parity`.

    python tools/parity_resnet.py [--model resnet50] [--lockstep build/lockstep] [--seeds 5] [--steps 30]
    [--batch 64] [--isa avx2 ...] [--keep FOLDER]

This network amplifies rounding: a ReLU or a maximum that falls the other way changes what follows. So losses
are judged by their distance from PyTorch's
float64 run of the same initial weights (PyTorch's own, by seed) and batches (Adam 1e-5): the median over
seeds and steps may be twice that of PyTorch's
float32. Then, with the weights and running statistics that each run of lockstep left, both evaluate:
probabilities within 1e-5.
"""

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
from common import mnist, normalize, values  # noqa: E402
from resnet import ResNet  # noqa: E402

RECIPE = """\
run: {{name: {name}, storage: "{storage}"}}
workers: 1
model: {{type: resnet{depth}, image_size: {size}, in_channels: {channels}, classes: 10, init: "{init}"}}
data: {{{data}, shuffle: false}}
train: {{epochs: 1, steps: {steps}, global_batch: {batch}, micro_batch: {batch}}}
optimizer: {{type: adam, lr: 1e-5}}
eval: {{every_epochs: 0}}
"""


class Mnist:
    """ResNet18 on the data of tutorial 2."""

    depth, channels, size = 18, 1, 28

    def __init__(self, options, folder):
        data = os.environ.get("LOCKSTEP_DATA")
        if not data or not os.path.isdir(os.path.join(data, "mnist")):
            sys.exit("parity: LOCKSTEP_DATA must name a folder that holds mnist/")
        self.data = f'type: mnist, path: "{os.path.abspath(data)}"'
        self.train, self.eval = mnist("train"), mnist("eval", os.path.join(data, "mnist"))


class Folder:
    """ResNet50 on pictures of noise, 64 x 64 in colour, in folders as torchvision's ImageFolder wants them:
    class by class in the order of their names."""

    depth, channels, size = 50, 3, 64

    def __init__(self, options, folder):
        self.data = f'type: images, path: "{folder}/pictures", size: 64, resize: 64'
        self.train = self.write(folder, "train", (options.steps * options.batch + 9) // 10)
        self.eval = self.write(folder, "val", 20)

    def write(self, folder, split, each):
        images = (values("parity." + split, (10 * each, 3, 64, 64), 128) + 128).to(torch.uint8)
        labels = torch.arange(10 * each) // each
        for i in range(10 * each):
            place = os.path.join(folder, "pictures", split, f"class{labels[i]}")
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, f"{i:05}.ppm"), "wb") as f:
                f.write(b"P6 64 64 255\n" + images[i].permute(1, 2, 0).contiguous().numpy().tobytes())
        return images, labels


def run_torch(seed, task, options, dtype):
    torch.manual_seed(seed)
    model = ResNet(task.depth, task.channels).to(dtype)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-5), []
    images, labels = task.train
    for k in range(options.steps):
        at = slice(k * options.batch, (k + 1) * options.batch)
        loss = F.cross_entropy(model(normalize(images[at], dtype)), labels[at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def run_lockstep(seed, isa, task, options, folder):
    """Losses, and the run's folder."""
    name, init = f"seed-{seed}-{isa}", os.path.join(folder, f"seed-{seed}.safetensors")
    torch.manual_seed(seed)
    save_file(ResNet(task.depth, task.channels).state_dict(), init, {"format": "pt"})
    recipe = os.path.join(folder, name + ".yaml")
    with open(recipe, "w") as f:
        f.write(
            RECIPE.format(
                name=name,
                storage=os.path.join(folder, "runs"),
                init=init,
                data=task.data,
                depth=task.depth,
                size=task.size,
                channels=task.channels,
                steps=options.steps,
                batch=options.batch,
            )
        )
    subprocess.run(
        [
            options.lockstep,
            "train",
            recipe,
            "-q",
            "--no-progress",
            "--resume",
            "never",
            "--set",
            f"isa={isa}",
        ],
        check=True,
    )
    run = os.path.join(folder, "runs", name)
    with open(os.path.join(run, "metrics.jsonl")) as f:
        losses = [row["loss"] for row in map(json.loads, f) if row["kind"] == "step"]
    return torch.tensor(losses, dtype=torch.float64), run


@torch.no_grad()
def evaluation_difference(run, isa, task, options):
    """Largest difference of the probabilities of what is predicted, over 200 samples, as lockstep and PyTorch
    see them."""
    said = subprocess.run(
        [options.lockstep, "predict", run, "--count", "200", "--json", "--set", f"isa={isa}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    model = ResNet(task.depth, task.channels).eval()
    model.load_state_dict(load_file(os.path.join(run, "checkpoints", "latest", "model.safetensors")))
    probabilities = model(normalize(task.eval[0][:200], torch.float32)).softmax(1)
    return max(
        abs(row["probability"] - probabilities[i, row["predicted"]].item())
        for i, row in enumerate(json.loads(said))
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=("resnet18", "resnet50"), default="resnet18")
    parser.add_argument("--lockstep", default=os.path.join(ROOT, "build", "lockstep"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--isa", nargs="+", default=["auto", "avx2"])
    parser.add_argument("--keep", metavar="FOLDER", help="leave recipes, runs and weights there")
    options = parser.parse_args()
    options.lockstep = os.path.abspath(options.lockstep)
    torch.set_num_threads(1)
    print(
        f"{options.model}, {options.steps} steps of {options.batch}, Adam 1e-5, {options.seeds} seeds: losses in float32 from PyTorch's in float64\n"
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.abspath(options.keep or temporary)
        os.makedirs(folder, exist_ok=True)
        task = {"resnet18": Mnist, "resnet50": Folder}[options.model](options, folder)
        distances = {"PyTorch": [], **{isa: [] for isa in options.isa}}
        evaluation = dict.fromkeys(options.isa, 0.0)
        for seed in range(options.seeds):
            truth = run_torch(seed, task, options, torch.float64)
            distances["PyTorch"].append((run_torch(seed, task, options, torch.float32) - truth).abs())
            for isa in options.isa:
                losses, run = run_lockstep(seed, isa, task, options, folder)
                distances[isa].append((losses - truth).abs())
                evaluation[isa] = max(evaluation[isa], evaluation_difference(run, isa, task, options))
            print(
                f"seed {seed}: median, largest  "
                + "   ".join(
                    f"{name} {d[-1].median():.2e} {d[-1].max():.2e}" for name, d in distances.items()
                ),
                flush=True,
            )
        medians = {name: torch.stack(d).flatten().median().item() for name, d in distances.items()}
        failed = 0
        print(f"\nPyTorch        median {medians['PyTorch']:.2e}")
        for isa in options.isa:
            good = medians[isa] <= 2 * medians["PyTorch"] and evaluation[isa] <= 1e-5
            failed += not good
            print(
                f"lockstep {isa:5} median {medians[isa]:.2e}, {medians[isa] / medians['PyTorch']:.2f} times PyTorch's; evaluation within {evaluation[isa]:.1e}"
                f"  {'ok' if good else 'FAILED (allowed 2 times and 1e-5)'}"
            )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
