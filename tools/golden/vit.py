"""torchvision's VisionTransformer, as far as tutorial 1 uses it, in plain PyTorch: the same modules,
parameter names, order of operations
and initial values, without torchvision's dependency on a matching binary. Dropout is 0 everywhere and left
out.
"""

import math
from collections import OrderedDict

import torch
from torch import nn


class MLPBlock(nn.Sequential):
    """Linear, GELU (erf), Dropout, Linear, Dropout: so the two layers are called 0 and 3."""

    def __init__(self, hidden, mlp):
        super().__init__(
            nn.Linear(hidden, mlp), nn.GELU(), nn.Identity(), nn.Linear(mlp, hidden), nn.Identity()
        )
        for layer in (self[0], self[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)


class EncoderBlock(nn.Module):
    def __init__(self, heads, hidden, mlp):
        super().__init__()
        self.ln_1 = nn.LayerNorm(hidden, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(hidden, heads, dropout=0.0, batch_first=True)
        self.ln_2 = nn.LayerNorm(hidden, eps=1e-6)
        self.mlp = MLPBlock(hidden, mlp)

    def forward(self, x):
        y = self.ln_1(x)
        y, _ = self.self_attention(y, y, y, need_weights=False)
        x = y + x
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, tokens, layers, heads, hidden, mlp):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, hidden).normal_(std=0.02))
        self.layers = nn.Sequential(
            OrderedDict((f"encoder_layer_{i}", EncoderBlock(heads, hidden, mlp)) for i in range(layers))
        )
        self.ln = nn.LayerNorm(hidden, eps=1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class VisionTransformer(nn.Module):
    def __init__(
        self, image_size=28, patch_size=7, in_channels=1, layers=10, heads=2, hidden=128, mlp=128, classes=10
    ):
        super().__init__()
        self.hidden = hidden
        self.conv_proj = nn.Conv2d(in_channels, hidden, patch_size, patch_size)
        if (
            in_channels == 3
        ):  # otherwise the tutorial puts a fresh Conv2d with its default initial values here
            nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / (in_channels * patch_size**2)))
            nn.init.zeros_(self.conv_proj.bias)
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.encoder = Encoder((image_size // patch_size) ** 2 + 1, layers, heads, hidden, mlp)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(hidden, classes)))
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def forward(self, images):
        x = self.conv_proj(images).flatten(2).permute(0, 2, 1)  # [batch, tokens, hidden]
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])
