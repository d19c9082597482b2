#!/usr/bin/env python3
"""images_train.py BUILD [--models resnet18 resnet50] [--threads 1 2] [--rounds 3] [--steps 5] [--images
FOLDER] - training from a folder of JPEG files.

`lockstep train` and PyTorch (eager, channels-last, torchvision's ImageFolder and DataLoader with one worker)
take turns in steps of 8 images of 3 x 224 x 224,
cut at random from files of about 500 x 375 (images.py makes them; --images keeps them there for the next
time). Beside the computing threads each program has one
thread or process that decodes. Of every turn the first 4 steps do not count, because batches that were
decoded before the turn feed them. Prints the medians of a
step from its batch to the next one's, their ratio, and the part of it that waits for data. Needs torch,
torchvision and Pillow.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time

from images import make_pictures
from server import Server, Train

BATCH, SIZE, FIRST = 8, 224, 4
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RECIPE = """model: {{type: {model}, in_channels: 3, classes: 1000}}
data: {{type: images, path: {folder}, size: 224, threads: 1, mean: {mean}, std: {std}, augment: {{crop: resized, flip: 0.5}}}}
train: {{epochs: 100000, global_batch: {batch}}}
optimizer: {{type: adam, lr: 1e-5}}
threads: {threads}
"""


class Ours(Train):
    def ask(self, steps):
        """Seconds of a step and those in which it does not compute."""
        done = len(self.steps()) + FIRST
        self.process.send_signal(signal.SIGCONT)
        self.wait(done)
        start = time.perf_counter()
        self.wait(done + steps)
        seconds = (time.perf_counter() - start) / steps
        self.process.send_signal(signal.SIGSTOP)
        return seconds, max(0.0, seconds - statistics.mean(self.steps()[done : done + steps]))


def torch_steps(model, folder, threads):
    """In a process of its own: answers each line STEPS of stdin."""
    import torch

    try:
        import tv_shim  # noqa: F401  lets a wheel of torchvision for CUDA work with a torch for CPUs
    except ImportError:
        pass
    from torchvision import datasets, models, transforms

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    change = [
        transforms.RandomResizedCrop(SIZE),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD),
    ]
    images = torch.utils.data.ConcatDataset(
        [datasets.ImageFolder(f"{folder}/train", transforms.Compose(change))] * 1000
    )
    batches = iter(torch.utils.data.DataLoader(images, batch_size=BATCH, shuffle=True, num_workers=1))
    net = models.get_model(model, num_classes=1000).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-5, fused=True)

    def step():
        start = time.perf_counter()
        x, labels = next(batches)
        waited = time.perf_counter() - start
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(net(x.to(memory_format=torch.channels_last)), labels)
        loss.backward()
        optimizer.step()
        loss.item()
        return time.perf_counter() - start, waited

    step()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        rows = [step() for _ in range(FIRST + int(line))][FIRST:]
        print(json.dumps([statistics.mean(r[k] for r in rows) for k in (0, 1)]), flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build")
    parser.add_argument("--models", nargs="+", default=["resnet18", "resnet50"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--images", metavar="FOLDER")
    parser.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch:
        torch_steps(options.models[0], options.images, options.threads[0])
        os._exit(0)  # without waiting for the worker
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.images or f"{scratch}/images"
        if not os.path.exists(folder):
            make_pictures(folder, 160)
        for model in options.models:
            for threads in options.threads:
                recipe = f"{scratch}/{model}-{threads}.yaml"
                with open(recipe, "w", encoding="utf-8") as f:
                    f.write(
                        RECIPE.format(
                            model=model,
                            folder=folder,
                            mean=list(MEAN),
                            std=list(STD),
                            batch=BATCH,
                            threads=threads,
                        )
                    )
                theirs = Server(
                    sys.executable,
                    __file__,
                    options.build,
                    "--torch",
                    "--models",
                    model,
                    "--threads",
                    str(threads),
                    "--images",
                    folder,
                )
                ours = Ours(f"{options.build}/lockstep", recipe, scratch, f"{model}-{threads}")
                pairs = [
                    (ours.ask(options.steps), theirs.ask(str(options.steps))) for _ in range(options.rounds)
                ]
                ours.close()
                theirs.close()
                (a, wait_a), (b, wait_b) = (
                    [statistics.median(p[who][k] for p in pairs) for k in (0, 1)] for who in (0, 1)
                )
                ratios = sorted(p[1][0] / p[0][0] for p in pairs)
                print(
                    f"{model}, {threads} thread{'s' if threads > 1 else ''}: {1e3 * a:.0f} ms ({1e3 * wait_a:.1f} of them wait for data), PyTorch {1e3 * b:.0f} "
                    f"({1e3 * wait_b:.1f}); {statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
