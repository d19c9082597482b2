#!/usr/bin/env python3
"""How well PyTorch learns tutorial 2, to be set beside `lockstep train resnet18-mnist`: one line of JSON per
epoch.

    LOCKSTEP_DATA=... python tools/learn_resnet.py [--seed 0] [--epochs 2] [--lr 1e-5] [--schedule cosine]
    [--ranks 2] [--threads 1]

ResNet18 with PyTorch's initial values on MNIST, global batches of 128, Adam. What DDP computes on R ranks is
computed here by one process: each batch is
normalised in R parts, gradients are averaged, and the running statistics are those of part 0."""

import argparse
import json
import math
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
from common import mnist, normalize  # noqa: E402
from resnet import ResNet  # noqa: E402


def step(model, optimizer, images, labels, ranks):
    """Mean loss of a global batch; sample i is of rank i % ranks."""
    optimizer.zero_grad()
    total = 0.0
    for rank in range(ranks):
        if rank == 1:
            kept = {name: value.clone() for name, value in model.named_buffers()}
        loss = (
            F.cross_entropy(model(normalize(images[rank::ranks], torch.float32)), labels[rank::ranks]) / ranks
        )
        loss.backward()
        total += loss.item()
    if ranks > 1:
        for name, value in model.named_buffers():
            value.copy_(kept[name])
    optimizer.step()
    return total


@torch.no_grad()
def evaluate(model, images, labels):
    model.eval()
    logits = torch.cat([model(normalize(part, torch.float32)) for part in images.split(250)])
    model.train()
    return F.cross_entropy(logits, labels).item(), (logits.argmax(1) == labels).double().mean().item()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--lr", type=float, default=1e-5)
    options.add_argument("--schedule", choices=("constant", "cosine"), default="constant")
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--threads", type=int, default=1)
    o = options.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    (images, labels), test = mnist("train"), mnist("eval")
    model, steps = ResNet(18).train(), o.epochs * (len(images) // 128)
    optimizer = torch.optim.Adam(model.parameters(), lr=o.lr)
    k = 0
    for epoch in range(o.epochs):
        losses = []
        for batch in torch.randperm(len(images))[: len(images) // 128 * 128].split(128):
            if o.schedule == "cosine":
                optimizer.param_groups[0]["lr"] = o.lr * (1 + math.cos(math.pi * k / steps)) / 2
            losses.append(step(model, optimizer, images[batch], labels[batch], o.ranks))
            k += 1
        loss, accuracy = evaluate(model, *test)
        print(
            json.dumps(
                {
                    "seed": o.seed,
                    "epoch": epoch,
                    "train_loss": sum(losses) / len(losses),
                    "last_loss": losses[-1],
                    "eval_loss": loss,
                    "eval_accuracy": accuracy,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
