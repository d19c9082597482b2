"""torchvision's ConvNeXt in plain PyTorch: the same modules, parameter names, order of operations and initial
values, without torchvision's dependency
on a matching binary."""

import torch
from torch import nn

TINY = ((3, 96), (3, 192), (9, 384), (3, 768))


class LayerNorm2d(nn.LayerNorm):
    """Over the channels of each pixel."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Permute(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.permute(self.dims)


class CNBlock(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(width, width, 7, padding=3, groups=width),
            Permute(0, 2, 3, 1),
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            Permute(0, 3, 1, 2),
        )
        self.layer_scale = nn.Parameter(torch.ones(width, 1, 1) * 1e-6)
        self.drop = drop

    def forward(self, x):
        y = self.layer_scale * self.block(x)
        if self.training and self.drop:  # a sample loses the branch
            y = y * torch.empty(len(y), 1, 1, 1, dtype=y.dtype).bernoulli_(1 - self.drop).div_(1 - self.drop)
        return y + x


class ConvNeXt(nn.Module):
    def __init__(self, stages=TINY, in_channels=3, classes=1000, stochastic_depth=0.1):
        super().__init__()
        blocks, done, layers, width = sum(n for n, _ in stages), 0, [], None
        for n, out in stages:
            if width is None:
                layers.append(nn.Sequential(nn.Conv2d(in_channels, out, 4, 4), LayerNorm2d(out, eps=1e-6)))
            else:
                layers.append(nn.Sequential(LayerNorm2d(width, eps=1e-6), nn.Conv2d(width, out, 2, 2)))
            width = out
            layers.append(
                nn.Sequential(*(CNBlock(out, stochastic_depth * (done + i) / (blocks - 1)) for i in range(n)))
            )
            done += n
        self.features, self.avgpool = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            LayerNorm2d(width, eps=1e-6), nn.Flatten(1), nn.Linear(width, classes)
        )
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)) and (
                module is not self.features[0][0] or in_channels == 3
            ):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, images):
        return self.classifier(self.avgpool(self.features(images)))
