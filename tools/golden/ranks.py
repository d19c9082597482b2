"""PyTorch over several ranks: real processes on this machine, gloo, one thread each. What the goldens of
ranks, the parity
check and the benchmark share.

A strategy is a word: ddp, fsdp (FSDP2: fully_shard of every encoder block and of the root,
reshard_after_forward=True), fsdp_keep (False), or
fsdp_bf16 (as fsdp, with MixedPrecisionPolicy(param_dtype=bfloat16, reduce_dtype=float32); the logits go to
the loss as float32).
"""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

from common import fill, normalize
from resnet import ResNet
from vit import VisionTransformer

STRATEGIES = ("ddp", "fsdp", "fsdp_keep", "fsdp_bf16")


def wrap(model, strategy):
    if strategy == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    options = {
        "reshard_after_forward": strategy != "fsdp_keep",
        "mesh": dist.init_device_mesh("cpu", (dist.get_world_size(),)),
    }
    if strategy == "fsdp_bf16":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.encoder.layers:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def step(model, optimizer, x, labels):
    """Loss of this rank's samples: DDP and FSDP2 average the gradients over ranks."""
    logits = model(x)
    loss = F.cross_entropy(logits.float() if logits.dtype == torch.bfloat16 else logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def whole(model):
    """Every parameter in full, by its name in the plain model."""
    names = ((name.removeprefix("module."), p.detach()) for name, p in model.named_parameters())
    return {name: (p.full_tensor() if hasattr(p, "full_tensor") else p).double() for name, p in names}


def train(strategy, images, labels, batch, steps):
    """On one rank: `steps` steps of `batch` samples in order, of which rank r of R takes r, r + R, ... as
    DistributedSampler deals them.
    Adam 1e-3. Losses (means over all ranks) and the weights afterwards."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = wrap(fill(VisionTransformer()), strategy)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-3), []
    for k in range(steps):
        mine = slice(k * batch + rank, (k + 1) * batch, ranks)
        loss = step(model, optimizer, normalize(images[mine], torch.float32), labels[mine]).double()
        dist.all_reduce(loss)
        losses.append(loss / ranks)
    return torch.stack(losses), whole(model)


def train_resnet(images, labels, batch, steps):
    """ResNet18 in float64 on one rank, samples dealt as above, Adam 1e-5: losses (means over all ranks), and
    rank 0's state dict afterwards. DDP gives
    every rank rank 0's running statistics before a forward pass, so those that are left are of rank 0's
    batches.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = fill(ResNet(18).double())
    wrapped = torch.nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-5), []
    for k in range(steps):
        mine = slice(k * batch + rank, (k + 1) * batch, ranks)
        loss = step(wrapped, optimizer, normalize(images[mine], torch.float64), labels[mine])
        dist.all_reduce(loss)
        losses.append(loss / ranks)
    return torch.stack(losses), model.state_dict()


def join(rank, ranks, store):
    """This process becomes rank `rank`; `store` names a file that does not exist yet."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=ranks)


def _rank(rank, ranks, folder, function, arguments):
    join(rank, ranks, os.path.join(folder, "store"))
    result = function(*arguments)
    if rank == 0:
        torch.save(result, os.path.join(folder, "result"))
    dist.destroy_process_group()


def run(ranks, function, *arguments):
    """function(*arguments) on every rank; what it returned on rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_rank, (ranks, folder, function, arguments), ranks)
        return torch.load(os.path.join(folder, "result"))
