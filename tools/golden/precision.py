"""FSDP2's MixedPrecisionPolicy given to some modules, and float16 under torch.amp.GradScaler with constants
of one's own: a small ViT on one rank.

Ways: all (bfloat16 everywhere), norms (that, LayerNorms in float32 whose results are bfloat16), head (that,
and the head in float32), block (float32,
encoder_layer_1 in bfloat16 with a float32 result), inside (that, with its LayerNorms in float32 and bfloat16
results), f16 (float16 everywhere, with the scaler).
Logits go to the loss as float32."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from common import fill, normalize, sample
from vit import VisionTransformer

WAYS = ("all", "norms", "head", "block", "inside", "f16")
SCALER = dict(init_scale=2.0**30, growth_factor=4.0, backoff_factor=0.125, growth_interval=3)
bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32


def small():
    return fill(VisionTransformer(layers=3, hidden=64, mlp=96))


def wrap(model, way):
    mesh = dist.init_device_mesh("cpu", (1,))

    def give(module, param, output=None):
        fully_shard(
            module,
            mesh=mesh,
            mp_policy=MixedPrecisionPolicy(param_dtype=param, reduce_dtype=f32, output_dtype=output),
        )

    norms = [m for m in model.modules() if isinstance(m, torch.nn.LayerNorm)]
    second = model.encoder.layers.encoder_layer_1
    if way == "inside":
        norms = [second.ln_1, second.ln_2]
    if way in ("norms", "head", "inside"):
        for norm in norms:
            give(norm, f32, bf16)
    if way == "head":
        give(model.heads.head, f32)
    if way in ("block", "inside"):
        give(second, bf16, f32)
    give(model, {"f16": f16, "block": f32, "inside": f32}.get(way, bf16))
    return model


def train(way, images, labels):
    """10 steps of 16 in order, Adam 1e-3: losses, the scale after each step and whether it was applied, and
    the gradients of the first step."""
    model = wrap(small(), way)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=way == "f16", **SCALER)
    out, losses, scales, applied = {}, [], [], []
    for k in range(10):
        at = slice(16 * k, 16 * k + 16)
        loss = F.cross_entropy(model(normalize(images[at], f32)).float(), labels[at])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if k == 0 and way != "f16":
            for name, p in model.named_parameters():
                out[f"{way}.grad.{name}"] = sample(p.grad.full_tensor(), 64)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
        scales.append(scaler.get_scale())
        applied.append(scaler.get_scale() >= before)
    out[way + ".losses"] = torch.stack(losses)
    if way == "f16":
        out["f16.scale"], out["f16.applied"] = torch.tensor(scales), torch.tensor(
            applied, dtype=torch.float32
        )
    return out
