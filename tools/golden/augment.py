"""Random changes of images (src/data/augment.h) by torchvision's transforms.v2: each operation with given
parameters on one image, RandAugment's
magnitudes, and means and deviations of the boxes that RandomResizedCrop and RandomErasing draw. Colours by
the kernels for u8 tensors, affine
operations by those for Pillow images. Boxes come from 20,000 draws."""

import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from common import values

CHANNELS, HEIGHT, WIDTH = 3, 16, 18
VALUES = {
    "ShearX": [0.09, -0.3],
    "ShearY": [-0.09, 0.25],
    "TranslateX": [2, -5],
    "TranslateY": [3, -4],
    "Rotate": [9, -30, 17.5],
    "Brightness": [0.27, -0.5, 0.9],
    "Color": [0.27, -0.9, 0.4],
    "Contrast": [0.27, -0.6, 0.9],
    "Sharpness": [0.9, -0.6],
    "Posterize": [7, 4, 1],
    "Solarize": [0.7, 0.3],
    "AutoContrast": [0],
    "Equalize": [0],
    "hue": [0.1, -0.35, 0.5],
}
FACTORS = ("Brightness", "Color", "Contrast", "Sharpness")
AFFINE = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")


def image():
    """A smooth image with some noise, not all levels used."""
    noise = values("augment.image", (CHANNELS, HEIGHT, WIDTH), 30.0, 0.0)
    y, x = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
    smooth = torch.stack(
        [110 + 90 * torch.sin(x * 0.3 + c) * torch.cos(y * 0.25 - c) for c in range(CHANNELS)]
    )
    return (smooth + noise).clamp(0, 240).to(torch.uint8)


def change(augment, picture, kind, value):
    if kind == "hue":
        return F.adjust_hue(picture, value)
    picture = F.to_pil_image(picture) if kind in AFFINE else picture
    out = augment._apply_image_or_video_transform(
        picture, kind, value, interpolation=augment.interpolation, fill=augment._fill
    )
    return F.pil_to_tensor(out) if kind in AFFINE else out


def boxes(transform, names, height, width):
    drawn = [transform.make_params([torch.zeros(3, height, width)]) for _ in range(20000)]
    drawn = [d for d in drawn if d.get("v", 0) is not None]
    t = torch.tensor([[float(d[n]) for n in names] for d in drawn], dtype=torch.float64)
    return torch.stack([t.mean(0), t.std(0)])


def augment():
    torch.manual_seed(0)
    picture = image()
    rand = v2.RandAugment()
    out = {"image": picture}
    for kind, given in VALUES.items():
        for k, value in enumerate(given):
            name = f"{kind}.{k}"
            # as the C code names parameters: a factor, a threshold of 255, pixels, degrees
            out[name + ".value"] = torch.tensor(
                [1 + value if kind in FACTORS else 255 * value if kind == "Solarize" else value],
                dtype=torch.float64,
            )
            out[name + ".colour"] = change(rand, picture, kind, value)
            out[name + ".gray"] = change(rand, picture[:1], kind, value)
    flat = picture.clone()
    flat[1] = 7  # nothing to stretch in one channel
    out["flat.AutoContrast"], out["flat.Equalize"] = F.autocontrast(flat), F.equalize(flat)
    for magnitude, bins in ((9, 31), (5, 11), (30, 31)):
        space = []
        for kind, (of, _) in rand._AUGMENTATION_SPACE.items():
            m = of(bins, 200, 300)
            m = 0.0 if m is None else float(m[magnitude])
            space.append({"TranslateX": int(m), "TranslateY": int(m), "Solarize": 255 * m}.get(kind, m))
        out[f"space.{magnitude}.{bins}"] = torch.tensor(space, dtype=torch.float64)
    for name, scale, ratio in (("wide", (0.08, 1.0), (3 / 4, 4 / 3)), ("narrow", (0.6, 0.9), (1.5, 4.0))):
        out["crop." + name] = boxes(
            v2.RandomResizedCrop(224, scale=scale, ratio=ratio), ("left", "top", "width", "height"), 120, 160
        )
    out["erase"] = boxes(v2.RandomErasing(p=1.0), ("j", "i", "w", "h"), 120, 160)
    # the loss of each row by CrossEntropyLoss(label_smoothing), and its gradient for rows that count
    # differently
    x, dy = values("augment.x", (9, 11), 8.0).requires_grad_(), values("augment.dy", (9,), 1.0)
    labels = torch.arange(9) * 5 % 11
    labels[4] = -100
    y = torch.nn.functional.cross_entropy(x, labels, reduction="none", ignore_index=-100, label_smoothing=0.1)
    (y * dy).sum().backward()
    out.update(
        {
            "cross_entropy_smooth." + k: t.detach()
            for k, t in {"x": x, "labels": labels.int(), "y": y, "dy": dy, "dx": x.grad}.items()
        }
    )
    # the same with the rows of probabilities that mixup and cutmix make of two labels
    x, dy = values("augment.mixed.x", (9, 11), 8.0).requires_grad_(), values("augment.mixed.dy", (9,), 1.0)
    labels, others, weight = (
        torch.arange(9) * 5 % 11,
        torch.arange(9) * 3 % 11,
        torch.arange(9, dtype=torch.float64) * 4096 / 32768,
    )
    hot = torch.nn.functional.one_hot
    soft = weight[:, None] * hot(labels, 11) + (1 - weight[:, None]) * hot(others, 11)
    y = torch.nn.functional.cross_entropy(x, soft, reduction="none", label_smoothing=0.1)
    (y * dy).sum().backward()
    out.update(
        {
            "mixed." + k: t.detach()
            for k, t in {
                "x": x,
                "labels": labels.int(),
                "labels.mixed": others.int(),
                "labels.weight": weight,
                "y": y,
                "dy": dy,
                "dx": x.grad,
            }.items()
        }
    )
    small = F.resize(picture, [9, 11], antialias=True)
    for alpha in (0.3, 1.0):
        drawn = [
            v2.CutMix(alpha=alpha, num_classes=2).make_params([torch.zeros(2, 3, 120, 160)])
            for _ in range(20000)
        ]
        t = torch.tensor(
            [(a, b, c - a, d - b) for a, b, c, d in (d["box"] for d in drawn)], dtype=torch.float64
        )
        out[f"cutmix.{alpha}"] = torch.stack([t.mean(0), t.std(0)])
    out["resize.small"], out["resize.large"] = small, F.resized_crop(
        picture, 3, 2, 8, 9, [HEIGHT, WIDTH], antialias=True
    )
    return out
