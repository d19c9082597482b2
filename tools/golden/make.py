#!/usr/bin/env python3
"""Writes tests/golden/*.safetensors: what PyTorch computes, for the tests to compare with. See
tests/golden/README.md.

    LOCKSTEP_DATA=... python tools/golden/make.py [NAME ...]

NAME is a function of `makers` below; without one, all are made.

One thread, deterministic algorithms. Float64 results are the truth; float32 ones show how far PyTorch itself
is from it.
"""

import copy
import math
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import fashion_mnist, fill, normalize, parameter, sample, save, values  # noqa: E402
from convnext import ConvNeXt  # noqa: E402
from ops import ACTS, elements, ops, picture_ops, recurrent, tensor_ops  # noqa: E402
from resnet import ResNet  # noqa: E402
from scalars import scalars  # noqa: E402
from vit import VisionTransformer  # noqa: E402
import ranks as several  # noqa: E402

TYPES = {"f64": torch.float64, "f32": torch.float32}


def train(model, images, labels, batch, steps, optimizer=None, clip=0.0):
    """Losses of `steps` steps over the samples in order; step k takes samples [k*batch, (k+1)*batch)."""
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for k in range(steps):
        loss = F.cross_entropy(
            model(images[k * batch : (k + 1) * batch]), labels[k * batch : (k + 1) * batch]
        )
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def first_step(out, prefix, model, images, labels, cut):
    """Logits, loss and every gradient (through `cut`), and the largest magnitude of each."""
    logits = model(images)
    loss = F.cross_entropy(logits, labels)
    model.zero_grad()
    loss.backward()
    out[prefix + "logits"], out[prefix + "loss"] = logits, loss
    for name, p in model.named_parameters():
        out[f"{prefix}grad.{name}"] = cut(p.grad)
        if cut is sample:
            out[f"{prefix}grad_max.{name}"] = p.grad.abs().max()


def vit():
    """ViT of tutorial 1 on the first 160 training images (kept in the file): one step of 16 in detail, then
    10 steps of Adam 1e-3."""
    images, labels = (t[:160] for t in fashion_mnist("train"))
    out = {"images": images, "labels": labels.to(torch.int32)}
    for tag, dtype in TYPES.items():
        x = normalize(images, dtype)
        model = fill(VisionTransformer().to(dtype))
        first_step(out, tag + ".", model, x[:16], labels[:16], sample)
        out[tag + ".losses"] = train(model, x, labels, 16, 10)
    out["bf16.losses"] = bf16_losses(normalize(images, torch.float32), labels)
    save("vit", out)


def bf16_losses(x, labels):
    """What FSDP2's MixedPrecisionPolicy(param_dtype=bfloat16, reduce_dtype=float32) computes, in one process:
    float32 masters, cast to
    bfloat16 for forward and backward, inputs cast too; gradients cast to float32, Adam on the masters. Logits
    go to the loss as float32.
    """
    master = fill(VisionTransformer())
    optimizer = torch.optim.Adam(master.parameters(), lr=1e-3)
    losses = []
    for k in range(10):
        model = copy.deepcopy(master).to(torch.bfloat16)
        at = slice(16 * k, 16 * k + 16)
        loss = F.cross_entropy(model(x[at].to(torch.bfloat16)).float(), labels[at])
        loss.backward()
        for p, q in zip(master.parameters(), model.parameters()):
            p.grad = q.grad.float()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def vit50():
    """The acceptance run: 50 steps of 128 in file order, Adam 1e-3. Losses, and the weights afterwards with
    how far each travelled. The K
    part of in_proj_bias is left out of `travelled`: its gradient is zero in exact arithmetic, and Adam makes
    steps of noise.
    """
    images, labels = (t[: 50 * 128] for t in fashion_mnist("train"))
    out, weights = {}, {}
    for tag, dtype in TYPES.items():
        model = fill(VisionTransformer().to(dtype))
        out[tag + ".losses"] = train(model, normalize(images, dtype), labels, 128, 50)
        weights[tag] = {name: p.detach().double() for name, p in model.named_parameters()}
    worst = {}
    for name, w in weights["f32"].items():
        moved, error = w - parameter(name, tuple(w.shape)), w - weights["f64"][name]
        if name.endswith("in_proj_bias"):
            third = w.numel() // 3
            moved[third : 2 * third] = error[third : 2 * third] = 0
        out["f32.weight." + name] = sample(w).float()
        out["f32.travelled." + name] = moved.norm()
        worst[name] = (error.norm() / moved.norm()).item()
    name = max(worst, key=worst.get)
    print(
        "float32 against float64: losses differ by at most %.3g,"
        % (out["f32.losses"].double() - out["f64.losses"]).abs().max()
    )
    print("  weights by at most %.3g of the distance they travelled (%s)" % (worst[name], name))
    save("vit50", out)


def ranks():
    """Losses of vit50's run at 2 ranks, sample i of a batch of 128 on rank i % 2: DDP and FSDP2 in float32,
    FSDP2 with parameters in bfloat16 and
    gradients reduced in float32; of the last also at 1 rank."""
    images, labels = (t[: 50 * 128] for t in fashion_mnist("train"))
    out = {}
    for strategy, count in (("ddp", 2), ("fsdp", 2), ("fsdp_bf16", 2), ("fsdp_bf16", 1)):
        out[f"{strategy}.{count}.losses"] = several.run(
            count, several.train, strategy, images, labels, 128, 50
        )[0]
    for a, b in (("ddp.2", "fsdp.2"), ("fsdp_bf16.2", "fsdp.2"), ("fsdp_bf16.2", "fsdp_bf16.1")):
        d = out[a + ".losses"] - out[b + ".losses"]
        print(
            f"{a} against {b}: losses differ by at most {d.abs().max():.3g}, root mean square {d.square().mean().sqrt():.3g}"
        )
    save("ranks", out)


def precision():
    """Policies of modules and a scaler of one's own: see precision.py. On the images of vit."""
    import precision as policies

    images, labels = (t[:160] for t in fashion_mnist("train"))
    out = {}
    for way in policies.WAYS:
        out.update(several.run(1, policies.train, way, images, labels))
    save("precision", out)


class MLP(torch.nn.Module):
    """[batch, 1, 4, 4] -> 12 -> 9 -> 5."""

    def __init__(self, act):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(16, 12), torch.nn.Linear(12, 9)])
        self.head, self.act = torch.nn.Linear(9, 5), act

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.layers:
            x = self.act(layer(x))
        return self.head(x)


OPTIMIZERS = {
    "adam": (lambda p: torch.optim.Adam(p, lr=1e-2), 0.0),
    "adam_l2": (lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1), 0.0),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1), 0.0),
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), 0.0),
    "sgd_nesterov": (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        0.0,
    ),
    "sgd_dampening": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, dampening=0.3), 0.0),
    "adam_clip": (lambda p: torch.optim.Adam(p, lr=1e-2), 0.05),
}


OF_MLPS = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu, "leaky_relu": F.leaky_relu, "elu": F.elu}


def mlp():
    """A tiny MLP, whole tensors: the first step with each activation, then (gelu) 5 steps of 6 with each
    optimizer."""
    images = (values("mlp.images", (30, 1, 4, 4), 128) + 128).to(torch.uint8)
    labels = (values("mlp.labels", (30,), 4096) + 4096).long() % 5
    out = {"images": images, "labels": labels.to(torch.int32)}
    for tag, dtype in TYPES.items():
        x = normalize(images, dtype)
        for act, function in (ACTS | OF_MLPS).items():
            first_step(out, f"{tag}.{act}.", fill(MLP(function).to(dtype)), x[:6], labels[:6], torch.clone)
        for name, (make, clip) in OPTIMIZERS.items():
            model = fill(MLP(F.gelu).to(dtype))
            out[f"{tag}.{name}.losses"] = train(model, x, labels, 6, 5, make(model.parameters()), clip=clip)
            for key, p in model.named_parameters():
                out[f"{tag}.{name}.weight.{key}"] = p
    save("mlp", out)


def optimizers():
    """The MLP above with optimizers.py."""
    import optimizers as more

    images = (values("mlp.images", (30, 1, 4, 4), 128) + 128).to(torch.uint8)
    labels = (values("mlp.labels", (30,), 4096) + 4096).long() % 5
    save("optimizers", more.optimizers(lambda: fill(MLP(F.gelu).double()), images, labels))


def resnet():
    """ResNets on pictures of noise. 18: one step of 4 in detail, running statistics after it, and logits in
    evaluation mode by them;
    34 and 50 (three channels): logits of 2. And the ops that only these have."""
    images, labels = (values("resnet.images", (4, 1, 28, 28), 128) + 128).to(torch.uint8), torch.tensor(
        [3, 0, 9, 5]
    )
    colour = (values("resnet.colour", (2, 3, 36, 36), 128) + 128).to(torch.uint8)
    out = {"images": images, "labels": labels.to(torch.int32), "colour": colour}
    for tag, dtype in TYPES.items():
        model = fill(ResNet(18).to(dtype))
        loss = F.cross_entropy(logits := model(normalize(images, dtype)), labels)
        loss.backward()
        out[tag + ".logits"], out[tag + ".loss"] = logits, loss
        for name, p in model.named_parameters():
            out[f"{tag}.grad.{name}"] = sample(p.grad, 64)
            out[f"{tag}.grad_max.{name}"] = p.grad.abs().max()
        for name, b in model.named_buffers():
            out[f"{tag}.state.{name}"] = sample(b, 64)
        out[tag + ".eval"] = model.eval()(normalize(images, dtype))
        for depth in (34, 50):
            out[f"{tag}.logits{depth}"] = fill(ResNet(depth, 3, 7).to(dtype))(normalize(colour, dtype))
    picture_ops(out)
    save("resnet", out)


def convnext():
    """A small ConvNeXt (5 blocks, 64x64, without stochastic depth) on pictures of noise: one step of 2 in
    detail and 5 steps of AdamW."""
    images, labels = (values("convnext.images", (10, 1, 64, 64), 128) + 128).to(torch.uint8), torch.tensor(
        [3, 0, 6, 5, 1, 2, 4, 0, 3, 6]
    )
    out = {"images": images, "labels": labels.to(torch.int32)}
    pictures = normalize(images, torch.float64)
    model = fill(ConvNeXt(((1, 8), (2, 12), (1, 16), (1, 24)), 1, 7, 0).double())
    first_step(out, "f64.", model, pictures[:2], labels[:2], lambda x: sample(x, 64))
    for name, p in model.named_parameters():
        out["f64.grad_max." + name] = p.grad.abs().max()
    out["f64.losses"] = train(
        model, pictures, labels, 2, 5, torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    )
    save("convnext", out)


def seeded(model, seed):
    """Gains 1, biases 0, all else spread as widely as Kaiming would have it, to the power of two below: exact
    in float32."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.fill_(name.endswith("weight"))
            else:
                fan = max(p.shape[:2]) * math.prod(p.shape[2:])
                p.copy_(
                    values(
                        f"seed {seed} {name}",
                        p.shape,
                        2.0 ** math.floor(math.log2(math.sqrt(6 / fan))),
                        0.0,
                        p.dtype,
                    )
                )
    return model


def resnet30():
    """Losses of 30 steps of ResNet18 on 32 pictures of noise each, Adam 1e-5, from 5 initial values."""
    images, labels = (values("resnet30.images", (960, 1, 28, 28), 128) + 128).to(torch.uint8), (
        values("resnet30.labels", (960,), 4096) + 4096
    ).long() % 10
    out = {}
    for tag, dtype in TYPES.items():
        losses = []
        for seed in range(5):
            model = seeded(ResNet(18).to(dtype), seed)
            losses.append(
                train(
                    model,
                    normalize(images, dtype),
                    labels,
                    32,
                    30,
                    torch.optim.Adam(model.parameters(), lr=1e-5),
                )
            )
        out[tag + ".losses"] = torch.stack(losses).double()
    save("resnet30", out)


def buffers():
    """ResNet18 at 16x16 over 5 steps of 8 pictures of noise in one process, and with DDP in two: losses,
    weights and running statistics."""
    images, labels = (values("buffers.images", (40, 1, 16, 16), 128) + 128).to(torch.uint8), (
        values("buffers.labels", (40,), 4096) + 4096
    ).long() % 10
    out = {"images": images, "labels": labels.to(torch.int32)}
    for count in (1, 2):
        out[f"{count}.losses"], state = several.run(count, several.train_resnet, images, labels, 8, 5)
        for name, tensor in state.items():
            out[f"{count}.{name}"] = sample(tensor, 8)
    save("buffers", out)


def decoder():
    """Small Qwen2 and Llama in float64: one step of 3 sequences of 9 in detail, where some targets do not
    count, then losses of 5 steps of AdamW."""
    from decoder import MODELS, balance, disk  # the only one that needs transformers

    ids = (values("decoder.ids", (5 * 3, 9), 4096) + 4096).long() % 37
    targets = torch.cat([ids[:, 1:], ids[:, :1]], 1)
    targets[1, 5:] = targets[2, 0] = -100
    out = {"ids": ids.int(), "targets": targets.int()}
    for name, make in MODELS.items():
        model = make().double()
        with torch.no_grad():
            for key, p, part in disk(model):
                part(p).copy_(parameter(key, tuple(part(p).shape)))

        def run(at):
            made = model(ids[at])
            loss = F.cross_entropy(made.logits.flatten(0, 1), targets[at].flatten(), ignore_index=-100)
            return made.logits, loss + balance(model, getattr(made, "router_logits", None), 3)

        logits, loss = run(slice(0, 3))
        loss.backward()
        out[name + ".logits"], out[name + ".loss"] = logits.flatten(0, 1), loss
        for key, p, part in disk(model):
            grad = part(p.grad)
            out[f"{name}.grad.{key}"], out[f"{name}.grad_max.{key}"] = sample(grad, 64), grad.abs().max()
        optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1), []
        for k in range(5):
            loss = run(slice(3 * k, 3 * k + 3))[1]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        out[name + ".losses"] = torch.stack(losses)
    save("decoder", out)


def t5():
    """Small T5s in float64: one step of 3 padded pairs in detail, then losses of 5 steps of AdamW; and
    transformers' buckets of distances."""
    from t5 import MODELS, buckets

    ids, targets = (
        1 + (values(f"t5.{name}", (5 * 3, n), 4096) + 4096).long() % 36
        for name, n in (("ids", 13), ("targets", 7))
    )
    for row in range(5 * 3):  # the first pair is whole
        ids[row, 13 - row % 3 * 4 :] = 0
        targets[row, 7 - row % 3 * 2 :] = -100
    out = {"ids": ids.int(), "targets": targets.int(), **buckets()}
    for name, make in MODELS.items():
        model = fill(make().double())
        loss_of = lambda at: model(
            input_ids=ids[at], attention_mask=(ids[at] != 0).long(), labels=targets[at]
        )
        result = loss_of(slice(0, 3))
        result.loss.backward()
        out[name + ".logits"], out[name + ".loss"] = result.logits.flatten(0, 1), result.loss
        for key, p in model.named_parameters():
            out[f"{name}.grad.{key}"], out[f"{name}.grad_max.{key}"] = sample(p.grad, 64), p.grad.abs().max()
        optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1), []
        for k in range(5):
            loss = loss_of(slice(3 * k, 3 * k + 3)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        out[name + ".losses"] = torch.stack(losses)
    save("t5", out)


def regression():
    import regression as r

    save("regression", r.regression())


def fields():
    import fields as f

    save("fields", f.fields())


def augment():
    import augment as a  # needs torchvision

    save("augment", a.augment())


def metrics():
    import metrics as m

    save("metrics", m.metrics())


def unet():
    import unet as u

    save("unet", u.unet())


def pictures():
    import pictures as p

    save("pictures", p.pictures())


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    makers = {
        f.__name__: f
        for f in (
            vit,
            vit50,
            ranks,
            precision,
            mlp,
            optimizers,
            ops,
            elements,
            tensor_ops,
            recurrent,
            scalars,
            convnext,
            resnet,
            resnet30,
            buffers,
            decoder,
            t5,
            fields,
            metrics,
            regression,
            augment,
            pictures,
            unet,
        )
    }
    for wanted in sys.argv[1:] or makers:
        makers[wanted]()
