#!/usr/bin/env python3
"""images.py BUILD [PICTURES] - pictures a second that become samples of 3 x 224 x 224: JPEG decoding, cutting
and resizing.

Runs bench_images (threads) and torchvision's DataLoader (as many worker processes, PIL) in turns over the
same generated
pictures of about 500 x 375, for evaluation (Resize 256, CenterCrop 224) and for training (RandomResizedCrop
224 and a flip),
and prints the medians and their ratio. Needs torch, torchvision and Pillow.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS, SECONDS, BATCH = 5, 2.0, 32


def make_pictures(folder, n):
    """Smooth gradients with filtered noise: they compress about as photographs do."""
    import numpy
    from PIL import Image, ImageFilter

    random = numpy.random.default_rng(0)
    for split in "train", "val":
        for label in "a", "b":
            os.makedirs(f"{folder}/{split}/{label}")
            for i in range(n):
                width, height = (500, 375) if i % 4 else (375, 500)
                y, x = numpy.mgrid[0:height, 0:width].astype("float32")
                picture = numpy.zeros((height, width, 3), "float32")
                for c in range(3):
                    f = random.normal(size=4)
                    picture[..., c] = (
                        128
                        + 60 * numpy.sin(f[0] * x / 40 + f[1] * y / 50)
                        + 40 * numpy.cos(f[2] * x / 90 - f[3] * y / 70)
                    )
                for radius, strength in (1, 4), (3, 20), (8, 60):
                    noise = Image.fromarray(random.integers(0, 256, (height, width, 3), dtype="uint8"))
                    noise = noise.filter(ImageFilter.GaussianBlur(radius))
                    picture += strength / 8 * (numpy.asarray(noise, "float32") - 128)
                Image.fromarray(picture.clip(0, 255).astype("uint8")).save(
                    f"{folder}/{split}/{label}/{i:04d}.jpg", quality=90
                )


def torchvision_rate(folder, split, workers):
    """In a process of its own."""
    import torch

    try:
        import tv_shim  # noqa: F401  lets a wheel of torchvision for CUDA work with a torch for CPUs
    except ImportError:
        pass
    from torchvision import datasets, transforms

    torch.set_num_threads(1)
    change = (
        [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
        if split == "train"
        else [transforms.Resize(256), transforms.CenterCrop(224)]
    )
    pictures = datasets.ImageFolder(
        f"{folder}/{split}", transforms.Compose(change + [transforms.PILToTensor()])
    )
    repeated = torch.utils.data.ConcatDataset([pictures] * 1000)
    batches = iter(torch.utils.data.DataLoader(repeated, batch_size=BATCH, num_workers=workers))
    for _ in range(2 * workers):
        next(batches)  # the workers have started
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        n += len(next(batches)[1])
    return n / (time.perf_counter() - start)


def main():
    if sys.argv[1] == "--torchvision":
        print(torchvision_rate(sys.argv[2], sys.argv[3], int(sys.argv[4])), flush=True)
        os._exit(0)  # without waiting for the workers
    bench = os.path.join(sys.argv[1], "bench", "bench_images")
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 40)
        for split in "val", "train":
            for workers in 1, 2:
                ours, theirs = [], []
                for _ in range(ROUNDS):
                    ours.append(
                        float(
                            subprocess.check_output([bench, folder, split, "224", str(workers), str(SECONDS)])
                        )
                    )
                    theirs.append(
                        float(
                            subprocess.check_output(
                                [sys.executable, __file__, "--torchvision", folder, split, str(workers)]
                            )
                        )
                    )
                a, b = statistics.median(ours), statistics.median(theirs)
                ratios = sorted(x / y for x, y in zip(ours, theirs))
                print(
                    f"{'evaluation' if split == 'val' else 'training'}, {workers} workers: {a:.0f} pictures/s, torchvision {b:.0f}; "
                    f"{a / b:.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})"
                )


if __name__ == "__main__":
    main()
