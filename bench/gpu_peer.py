#!/usr/bin/env python3
"""PyTorch's training step of a model of bench/gpu.py, in a process of its own: plain PyTorch, nothing else.

    python bench/gpu_peer.py '{"model": "vit", "sizes": {...}, "batch": 128, "mode": "eager", ...}'

Prints a line of JSON: the median of the steps in ms, and the model's number of parameters. Language models
have Hugging Face's structure, with PyTorch's fused attention, norms and loss. Weights are random, and a batch
is on the device already: no step's time depends on them."""

import importlib.util
import json
import math
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


def golden(name):
    """A module of tools/golden, which itself needs only PyTorch."""
    path = os.path.join(HERE, "..", "tools", "golden", name + ".py")
    spec = importlib.util.spec_from_file_location("golden_" + name, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where torch.compile looks
    spec.loader.exec_module(module)
    return module


def heads(x, n):
    """[batch, tokens, n * dim] as [batch, n, tokens, dim]"""
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


class RMSNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, 1e-6)


# ---- Qwen2


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class QwenLayer(nn.Module):
    def __init__(self, s):
        super().__init__()
        hidden, dim = s["hidden_size"], s["hidden_size"] // s["heads"]
        self.heads, self.kv_heads = s["heads"], s["kv_heads"]
        self.q, self.k, self.v = (
            nn.Linear(hidden, n * dim) for n in (self.heads, self.kv_heads, self.kv_heads)
        )
        self.o = nn.Linear(hidden, hidden, bias=False)
        self.gate, self.up = (nn.Linear(hidden, s["mlp_size"], bias=False) for _ in range(2))
        self.down = nn.Linear(s["mlp_size"], hidden, bias=False)
        self.norm1, self.norm2 = RMSNorm(hidden), RMSNorm(hidden)

    def forward(self, x, cos, sin):
        y = self.norm1(x)
        q, k = rotate(heads(self.q(y), self.heads), cos, sin), rotate(
            heads(self.k(y), self.kv_heads), cos, sin
        )
        v = heads(self.v(y), self.kv_heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Qwen(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.embed = nn.Embedding(s["vocab_size"], s["hidden_size"])
        self.layers = nn.ModuleList(QwenLayer(s) for _ in range(s["layers"]))
        self.norm = RMSNorm(s["hidden_size"])
        dim = s["hidden_size"] // s["heads"]
        angles = torch.outer(torch.arange(s["tokens"]), 1e6 ** (-torch.arange(0, dim, 2) / dim)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embed.weight)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())


# ---- T5


class T5Attention(nn.Module):
    def __init__(self, s):
        super().__init__()
        hidden = s["hidden_size"]
        self.heads = s["heads"]
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))

    def forward(self, x, source, bias):
        q, k, v = (
            heads(self.q(x), self.heads),
            heads(self.k(source), self.heads),
            heads(self.v(source), self.heads),
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
        return self.o(y.transpose(1, 2).flatten(2))


class T5Block(nn.Module):
    def __init__(self, s, decodes):
        super().__init__()
        hidden = s["hidden_size"]
        self.norms = nn.ModuleList(RMSNorm(hidden) for _ in range(3 if decodes else 2))
        self.own = T5Attention(s)
        self.cross = T5Attention(s) if decodes else None
        self.wi = nn.Linear(hidden, s["mlp_size"], bias=False)
        self.wo = nn.Linear(s["mlp_size"], hidden, bias=False)

    def forward(self, x, bias, source):
        y = self.norms[0](x)
        x = x + self.own(y, y, bias)
        if self.cross:
            x = x + self.cross(self.norms[1](x), source, None)
        return x + self.wo(F.relu(self.wi(self.norms[-1](x))))


class T5Stack(nn.Module):
    def __init__(self, s, tokens, decodes):
        super().__init__()
        self.decodes, self.heads = decodes, s["heads"]
        self.table = nn.Embedding(32, s["heads"])
        self.blocks = nn.ModuleList(T5Block(s, decodes) for _ in range(s["layers"]))
        self.norm = RMSNorm(s["hidden_size"])
        apart = torch.arange(tokens)[None, :] - torch.arange(tokens)[:, None]  # key - query
        self.register_buffer("buckets", self.bucket(apart), persistent=False)
        future = torch.full((tokens, tokens), -math.inf).triu(1) if decodes else torch.zeros(tokens, tokens)
        self.register_buffer("future", future, persistent=False)

    def bucket(self, apart, most=128):
        """Half of the buckets for near tokens, one each, the others for far ones, in logarithmic steps."""
        n = 32 if self.decodes else 16
        base = torch.zeros_like(apart) if self.decodes else (apart > 0) * n
        far = -apart.clamp(max=0) if self.decodes else apart.abs()
        large = (
            n // 2 + (torch.log(far.clamp(min=1) / (n // 2)) / math.log(most / (n // 2)) * (n // 2)).long()
        )
        return base + torch.where(far < n // 2, far, large.clamp(max=n - 1))

    def forward(self, x, source=None):
        bias = self.table(self.buckets).permute(2, 0, 1)[None] + self.future.to(x.dtype)
        bias = bias.expand(x.shape[0], -1, -1, -1)
        for block in self.blocks:
            x = block(x, bias, source)
        return self.norm(x)


class T5(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.shared = nn.Embedding(s["vocab_size"], s["hidden_size"])
        self.encoder = T5Stack(s, s["source_length"], False)
        self.decoder = T5Stack(s, s["target_length"], True)

    def forward(self, ids, targets):
        source = self.encoder(self.shared(ids))
        x = self.decoder(self.shared(F.pad(targets[:, :-1], (1, 0))), source)
        logits = F.linear(x * x.shape[-1] ** -0.5, self.shared.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


# ---- a step


class Pictures(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, images, labels):
        return F.cross_entropy(self.net((images.float() / 255 - 0.5) / 0.5), labels)


def make(options):
    """The model, which gives its loss; its inputs; its optimizer."""
    s, batch = options["sizes"], options["batch"]
    ids = lambda n: torch.randint(3, min(250, s["vocab_size"]), (batch, n))  # noqa: E731
    if options["model"] == "qwen2":
        return Qwen(s), (ids(s["tokens"]),), torch.optim.AdamW
    if options["model"] == "t5":
        return T5(s), (ids(s["source_length"]), ids(s["target_length"])), torch.optim.AdamW
    images = torch.randint(0, 256, (batch, 1, 28, 28), dtype=torch.uint8), torch.randint(0, 10, (batch,))
    if options["model"] == "resnet18":
        return Pictures(golden("resnet").ResNet(18, 1)), images, torch.optim.Adam
    net = golden("vit").VisionTransformer(
        layers=s["layers"], heads=s["heads"], hidden=s["hidden_size"], mlp=s["mlp_size"]
    )
    return Pictures(net), images, torch.optim.Adam


def main():
    options = json.loads(sys.argv[1])
    torch.set_default_device(options["device"])
    torch.set_float32_matmul_precision("high" if options["tf32"] else "highest")
    torch.backends.cudnn.allow_tf32 = options["tf32"]
    torch.backends.cudnn.benchmark = True
    net, inputs, optimizer_class = make(options)
    if options["bf16"]:
        net = net.to(torch.bfloat16)
    parameters = sum(p.numel() for p in net.parameters())
    optimizer = optimizer_class(net.parameters(), lr=1e-5, fused=True)
    if options["mode"] != "eager":
        net = torch.compile(net, mode="reduce-overhead" if options["mode"] == "overhead" else None)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = net(*inputs)
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(options["warm"]):
        loss = step()
    times = []
    for _ in range(options["steps"]):
        begin = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - begin)
    if not math.isfinite(loss):
        sys.exit(f"the loss is {loss}")
    print(
        json.dumps(
            {"ms": 1e3 * statistics.median(times), "parameters": parameters, "torch": torch.__version__}
        )
    )


if __name__ == "__main__":
    main()
