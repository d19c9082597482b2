"""U-Net with the names and the structure of milesial's Pytorch-UNet, in plain PyTorch; and a small one's
golden values: a step in detail and five steps of
AdamW, for classes of pixels (cross_entropy, some pixels are -100) and for a mask (bce)."""

import torch
import torch.nn.functional as F
from torch import nn

from common import fill, sample, values


class DoubleConv(nn.Module):
    def __init__(self, inputs, out, between=None):
        super().__init__()
        layers, between = [], between or out
        for i, o in ((inputs, between), (between, out)):
            layers += [nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)]
        self.double_conv = nn.Sequential(*layers)

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, inputs, out):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(inputs, out))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, inputs, out, bilinear):
        super().__init__()
        if bilinear:
            self.up, self.conv = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), DoubleConv(
                inputs, out, inputs // 2
            )
        else:
            self.up, self.conv = nn.ConvTranspose2d(inputs, out, 2, 2), DoubleConv(inputs, out)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], 1))


class OutConv(nn.Module):
    def __init__(self, inputs, out):
        super().__init__()
        self.conv = nn.Conv2d(inputs, out, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, inputs, classes, channels=64, levels=4, bilinear=False):
        super().__init__()
        width = [channels << i for i in range(levels + 1)]
        half = 2 if bilinear else 1
        self.levels, self.inc = levels, DoubleConv(inputs, channels)
        for i in range(levels):
            setattr(self, f"down{i + 1}", Down(width[i], width[i + 1] // (half if i + 1 == levels else 1)))
        for i in range(levels):
            setattr(
                self,
                f"up{i + 1}",
                Up(width[levels - i], width[levels - i - 1] // (half if i + 1 < levels else 1), bilinear),
            )
        self.outc = OutConv(channels, classes)

    def forward(self, x):
        seen = [self.inc(x)]
        for i in range(self.levels):
            seen.append(getattr(self, f"down{i + 1}")(seen[-1]))
        x = seen.pop()
        for i in range(self.levels):
            x = getattr(self, f"up{i + 1}")(x, seen.pop())
        return self.outc(x)


BATCH, STEPS, SIZE = 2, 5, 8


def run(out, name, classes, loss_of, bilinear=False):
    images = values("unet.images", (BATCH * STEPS, 2, SIZE, 2 * SIZE), 1)
    model = fill(UNet(2, classes, 3, 2, bilinear).double())
    logits = model(images[:BATCH])
    loss = loss_of(logits, slice(0, BATCH))
    loss.backward()
    out[f"{name}.logits"], out[f"{name}.loss"] = logits, loss
    for key, p in model.named_parameters():
        out[f"{name}.grad.{key}"], out[f"{name}.grad_max.{key}"] = sample(p.grad, 16), p.grad.abs().max()
    model = fill(UNet(2, classes, 3, 2, bilinear).double())
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05), []
    for k in range(STEPS):
        at = slice(BATCH * k, BATCH * k + BATCH)
        loss = loss_of(model(images[at]), at)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    out[f"{name}.losses"] = torch.stack(losses)


def unet():
    out, shape = {}, (BATCH * STEPS, SIZE, 2 * SIZE)
    labels = (values("unet.labels", shape, 2) + 2).long()  # 0 .. 3; 3 is not a label
    labels[labels == 3] = -100
    mask = (values("unet.mask", shape, 0.5) + 0.5)[:, None]
    run(out, "classes", 3, lambda y, at: F.cross_entropy(y, labels[at]))
    run(out, "bilinear", 3, lambda y, at: F.cross_entropy(y, labels[at]), True)
    run(out, "mask", 1, lambda y, at: F.binary_cross_entropy_with_logits(y, mask[at]))
    return out
