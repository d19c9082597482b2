"""Ops on pictures beside those of resnet: other convolutions, pools and resizing. Each in float64 with
gradients."""

import torch
import torch.nn.functional as F
from common import values


def leaf(name, shape, amplitude):
    return values(name, shape, amplitude).requires_grad_()


def keep(out, case, inputs, y):
    dy = values(case + ".dy", y.shape, 1.0)
    y.backward(dy)
    out[f"{case}.y"], out[f"{case}.dy"] = y, dy
    for name, tensor in inputs.items():
        out[f"{case}.{name}"], out[f"{case}.d{name}"] = tensor, tensor.grad


def convolution(out, case, op, x, w, channels, **options):
    x, w, b = leaf(case + ".x", x, 2.0), leaf(case + ".w", w, 0.5), leaf(case + ".b", (channels,), 0.5)
    keep(out, case, {"x": x, "w": w, "b": b}, op(x, w, b, **options))


def pictures():
    out = {}
    convolution(out, "conv1d", F.conv1d, (2, 4, 11), (6, 2, 3), 6, stride=2, padding=1, dilation=2, groups=2)
    convolution(
        out,
        "conv3d",
        F.conv3d,
        (2, 4, 5, 6, 4),
        (4, 2, 3, 2, 2),
        4,
        stride=(2, 1, 2),
        padding=(1, 0, 1),
        dilation=(1, 2, 1),
        groups=2,
    )
    convolution(
        out,
        "conv3d_dilated",
        F.conv3d,
        (1, 2, 7, 3, 3),
        (3, 2, 2, 1, 1),
        3,
        stride=(1, 1, 1),
        dilation=(3, 1, 1),
    )
    convolution(out, "conv3d_skipping", F.conv3d, (1, 1, 8, 2, 2), (2, 1, 1, 1, 1), 2, stride=(3, 1, 1))
    convolution(
        out,
        "conv_transpose1d",
        F.conv_transpose1d,
        (2, 3, 6),
        (3, 4, 3),
        4,
        stride=3,
        padding=1,
        output_padding=2,
    )
    convolution(
        out,
        "conv_transpose2d",
        F.conv_transpose2d,
        (2, 4, 5, 3),
        (4, 3, 3, 2),
        6,
        stride=(3, 2),
        padding=(1, 0),
        output_padding=(1, 1),
        groups=2,
        dilation=(1, 2),
    )
    convolution(out, "up", F.conv_transpose2d, (1, 5, 4, 4), (5, 3, 2, 2), 3, stride=2)
    convolution(
        out,
        "conv_transpose3d",
        F.conv_transpose3d,
        (2, 2, 2, 2, 2),
        (2, 1, 2, 2, 2),
        2,
        stride=(3, 2, 1),
        padding=(2, 1, 0),
        output_padding=(1, 1, 0),
        groups=2,
        dilation=(2, 1, 2),
    )
    convolution(out, "up3", F.conv_transpose3d, (1, 3, 2, 2, 1), (3, 2, 2, 2, 2), 2, stride=2)
    for case, pad in (("avg_counted", True), ("avg_inside", False)):
        x = leaf(case + ".x", (1, 2, 7, 6), 2.0)
        keep(out, case, {"x": x}, F.avg_pool2d(x, (3, 2), (2, 1), (1, 1), count_include_pad=pad))
    for case, size, options in (
        ("nearest", (9, 4), {"mode": "nearest"}),
        ("bilinear", (10, 4), {"mode": "bilinear"}),
        ("bilinear_up", (14, 12), {"mode": "bilinear"}),
        ("corners", (9, 11), {"mode": "bilinear", "align_corners": True}),
    ):
        x = leaf(case + ".x", (1, 2, 7, 6), 2.0)
        keep(out, case, {"x": x}, F.interpolate(x, size, **options))
    # which elements nearest chooses, for sizes where rounding could decide
    for a, b in ((49, 2), (2, 98), (7, 61), (61, 7), (100, 41), (3, 200)):
        out[f"nearest.{a}.{b}"] = F.interpolate(
            torch.arange(a, dtype=torch.float32)[None, None, None], (1, b)
        )[0, 0, 0].int()
    return out
