#!/usr/bin/env python3
"""Writes tests/golden/*.safetensors: what PyTorch computes, for the tests to compare with. See
tests/golden/README.md.

    LOCKSTEP_DATA=... python tools/golden/make.py
    [vit|vit50|ranks|mlp|optimizers|ops|elements|tensor_ops|recurrent|scalars|convnext|resnet|resnet30|buffers|decoder|t5|pictures|unet ...]

One thread, deterministic algorithms. Float64 results are the truth; float32 ones show how far PyTorch itself
is from it.
"""

import copy
import math
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import fashion_mnist, fill, normalize, parameter, sample, values  # noqa: E402
from convnext import ConvNeXt  # noqa: E402
from resnet import ResNet  # noqa: E402
from vit import VisionTransformer  # noqa: E402
import ranks as several  # noqa: E402

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden")
TYPES = {"f64": torch.float64, "f32": torch.float32}


def save(name, tensors):
    tensors = {k: v.detach().contiguous().clone() for k, v in sorted(tensors.items())}
    path = os.path.join(OUT, name + ".safetensors")
    # one key: the library writes several in random order, and the same numbers should be the same file
    save_file(tensors, path, {"torch": torch.__version__.split("+")[0]})
    os.chmod(path, 0o644)
    print(f"{name}: {len(tensors)} tensors, {sum(t.nbytes for t in tensors.values())} bytes")


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


ACTS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
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


def mlp():
    """A tiny MLP, whole tensors: the first step with each activation, then (gelu) 5 steps of 6 with each
    optimizer."""
    images = (values("mlp.images", (30, 1, 4, 4), 128) + 128).to(torch.uint8)
    labels = (values("mlp.labels", (30,), 4096) + 4096).long() % 5
    out = {"images": images, "labels": labels.to(torch.int32)}
    for tag, dtype in TYPES.items():
        x = normalize(images, dtype)
        for act, function in ACTS.items():
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


def leaf(name, shape, amplitude, center=0.0):
    return values(name, shape, amplitude, center).requires_grad_()


def keep(out, case, inputs, y, dy):
    """Inputs, the output's gradient, output and input gradients of one op."""
    y.backward(dy)
    out[f"{case}.y"], out[f"{case}.dy"] = y, dy
    for name, tensor in inputs.items():
        out[f"{case}.{name}"] = tensor
        if tensor.requires_grad:
            out[f"{case}.d{name}"] = tensor.grad


def attention(out, case, batch, tq, tk, heads, kv_heads, dim, bias_batch, causal, scale):
    """docs/ops.md `attention`: heads side by side in the last dimension, grouped queries, bias added to the
    scaled scores, causal masks
    keys beyond i + tk - tq."""
    q, k, v = (
        leaf(f"{case}.{n}", (batch, t, h * dim), 2.0)
        for n, t, h in (("q", tq, heads), ("k", tk, kv_heads), ("v", tk, kv_heads))
    )
    inputs = {"q": q, "k": k, "v": v}
    split = lambda t, h: t.view(batch, -1, h, dim).transpose(1, 2)
    kk, vv = (split(t, kv_heads).repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    scores = scale * split(q, heads) @ kk.transpose(-1, -2)
    if bias_batch:
        inputs["bias"] = leaf(f"{case}.bias", (bias_batch, heads, tq, tk), 1.0)
        scores = scores + inputs["bias"]
    if causal:
        allowed = torch.arange(tk)[None, :] <= torch.arange(tq)[:, None] + tk - tq
        scores = scores.masked_fill(~allowed, float("-inf"))
    out[f"{case}.lse"] = scores.logsumexp(-1)
    y = (scores.softmax(-1) @ vv).transpose(1, 2).reshape(batch, tq, heads * dim)
    keep(out, case, inputs, y, values(f"{case}.dy", y.shape, 1.0))
    if not bias_batch:  # the same through PyTorch's own kernel
        mask = allowed if causal else None
        other = F.scaled_dot_product_attention(split(q, heads), kk, vv, attn_mask=mask, scale=scale)
        assert torch.allclose(other.transpose(1, 2).reshape(y.shape), y, rtol=1e-12, atol=1e-12)


def text_ops(out):
    """The ops of language models. Rotary positions as Hugging Face's modelling code has them, in float64."""
    x = torch.cat(
        [
            values("silu.x", (56,), 4.0),
            torch.tensor([0.0, -0.0, 1e-30, -1e-30, 12, -12, 80, -80], dtype=torch.float64),
        ]
    )
    x = x.float().double().requires_grad_()
    keep(out, "silu", {"x": x}, F.silu(x), values("silu.dy", (64,), 1.0))
    gate, up = leaf("swiglu.gate", (3, 17), 4.0), leaf("swiglu.up", (3, 17), 2.0)
    keep(out, "swiglu", {"gate": gate, "up": up}, F.silu(gate) * up, values("swiglu.dy", (3, 17), 1.0))
    x, gain = leaf("rms_norm.x", (3, 5, 24), 2.0), leaf("rms_norm.gain", (24,), 0.5, 1.0)
    out["rms_norm.rstd"] = (x.square().mean(-1) + 1e-6).rsqrt()
    keep(
        out,
        "rms_norm",
        {"x": x, "gain": gain},
        F.rms_norm(x, (24,), gain, 1e-6),
        values("rms_norm.dy", x.shape, 1.0),
    )
    table, ids = leaf("embedding.table", (7, 9), 2.0), torch.tensor(
        [[3, 0, 6, 3, 3], [1, 1, 0, 5, 3], [6, 2, 0, 0, 1]]
    )
    out["embedding.ids"] = ids.int()
    keep(out, "embedding", {"table": table}, F.embedding(ids, table), values("embedding.dy", (3, 5, 9), 1.0))
    for case, dim, positions in (
        ("rope", 6, torch.arange(5).expand(2, 5)),
        ("rope_positions", 8, torch.tensor([[0, 1, 2, 0, 1], [7, 500, 31, 4, 12345]])),
    ):
        x = leaf(case + ".x", (2, 5, 3 * dim), 2.0)
        frequency = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angle = torch.cat([positions[..., None] * frequency] * 2, -1)[:, :, None]  # [batch, tokens, 1, dim]
        heads = x.view(2, 5, 3, dim)
        half = torch.cat([-heads[..., dim // 2 :], heads[..., : dim // 2]], -1)
        out[case + ".positions"] = positions.int()
        keep(
            out,
            case,
            {"x": x},
            (heads * angle.cos() + half * angle.sin()).flatten(2),
            values(case + ".dy", x.shape, 1.0),
        )


def ops():
    """Single ops in float64; every input is exact in float32."""
    out = {}
    for case, shape, center in (("layer_norm", (3, 5, 24), 0.0), ("layer_norm_offset", (7, 33), 64.0)):
        x, k = leaf(case + ".x", shape, 2.0, center), shape[-1]
        gain, bias = leaf(case + ".gain", (k,), 0.5, 1.0), leaf(case + ".bias", (k,), 0.5)
        y = F.layer_norm(x, (k,), gain, bias, 1e-6)
        out[case + ".mean"] = x.mean(-1)
        out[case + ".rstd"] = (x.var(-1, unbiased=False) + 1e-6).rsqrt()
        keep(out, case, {"x": x, "gain": gain, "bias": bias}, y, values(case + ".dy", shape, 1.0))
    for case, function in ACTS.items():
        x = torch.cat(
            [
                values("act.x", (56,), 4.0),
                torch.tensor([0.0, -0.0, 1e-30, -1e-30, 12, -12, 100, -100], dtype=torch.float64),
            ]
        )
        x = x.float().double().requires_grad_()
        keep(out, case, {"x": x}, function(x), values(case + ".dy", (64,), 1.0))
    text_ops(out)
    attention(out, "attention", 2, 5, 7, 2, 2, 8, 0, False, 8**-0.5)
    attention(out, "attention_causal", 1, 3, 6, 2, 2, 5, 0, True, 0.5)
    attention(out, "attention_bias", 2, 4, 4, 3, 3, 4, 1, False, 1.0)
    attention(out, "attention_bias_batch", 2, 4, 4, 2, 2, 4, 2, True, 0.25)
    attention(out, "attention_gqa", 2, 4, 9, 4, 2, 8, 0, True, 8**-0.5)
    x = leaf("softmax.x", (4, 19), 8.0)
    keep(out, "softmax", {"x": x}, x.softmax(-1), values("softmax.dy", x.shape, 1.0))
    x = leaf("cross_entropy.x", (9, 11), 8.0)
    labels = torch.tensor([3, -100, 10, 0, 5, -100, 7, 7, 1])
    y = (
        F.cross_entropy(x, labels, reduction="sum", ignore_index=-100) / 20
    )  # a step's count, larger than this micro-batch's 7
    out["cross_entropy.labels"], out["cross_entropy.count"] = labels.int(), torch.tensor(
        20.0, dtype=torch.float64
    )
    out["cross_entropy.rows"] = F.cross_entropy(x, labels, reduction="none", ignore_index=-100)
    out["cross_entropy.lse"] = x.logsumexp(-1)
    keep(out, "cross_entropy", {"x": x}, y, torch.tensor(1.0, dtype=torch.float64))
    for case, limit in (("clip", 0.75), ("clip_not", 64.0)):
        grads = [torch.nn.Parameter(torch.zeros(n, dtype=torch.float64)) for n in (40, 3, 17)]
        for i, p in enumerate(grads):
            p.grad = values(f"clip.{i}", p.shape, 0.5)
        out[case + ".grad"] = torch.cat([p.grad for p in grads])
        out[case + ".norm"] = torch.nn.utils.clip_grad_norm_(grads, limit)
        out[case + ".clipped"] = torch.cat([p.grad for p in grads])
        out[case + ".limit"] = torch.tensor(limit, dtype=torch.float64)
    save("ops", out)


def elements():
    """Element-wise ops in float64, at their kinks too; every input is exact in float32."""
    out, size = {}, (64,)
    kinks = [0.0, 0.5, 1.0, -1.0, -1.5, 2.0, 3.0, -3.0]

    def near(name, points=kinks):
        x = torch.cat([values(name, (64 - len(points),), 4.0), torch.tensor(points, dtype=torch.float64)])
        return x.float().double().requires_grad_()

    unary = {
        "abs": torch.abs,
        "sign": torch.sign,
        "sin": torch.sin,
        "cos": torch.cos,
        "sigmoid": torch.sigmoid,
        "softplus": F.softplus,
        "hardswish": F.hardswish,
        "leaky_relu": F.leaky_relu,
        "elu": lambda x: F.elu(x, 1.5),
        "pow_const": lambda x: x**3,
        "clamp": lambda x: x.clamp(-1.5, 2),
    }
    for case, function in unary.items():
        x = near(case + ".x")
        keep(out, case, {"x": x}, function(x), values(case + ".dy", size, 1.0))
    for case, function in (("max", torch.maximum), ("min", torch.minimum)):
        x, z = near(case + ".x"), near(case + ".z")  # the last elements are equal
        keep(out, case, {"x": x, "z": z}, function(x, z), values(case + ".dy", size, 1.0))
    x, z = near("pow.x", [0.0, 0.0, 1.0]).detach().abs().requires_grad_(), near("pow.z", [2.0, 0.0, -2.0])
    x = torch.where(x > 0, x.detach() + 0.25, x.detach()).float().double().requires_grad_()
    keep(out, "pow", {"x": x, "z": z}, torch.pow(x, z), values("pow.dy", size, 1.0))
    for case, function in (("gt", torch.gt), ("ge", torch.ge), ("eq", torch.eq)):
        x, z = near(case + ".x"), near(case + ".z")
        # no gradient flows; the product with zeros gives keep() one to store
        keep(
            out,
            case,
            {"x": x, "z": z},
            function(x, z).double() + 0 * (x + z),
            values(case + ".dy", size, 1.0),
        )
    condition, x, z = near("where.condition"), near("where.x"), near("where.z")
    keep(
        out,
        "where",
        {"condition": condition, "x": x, "z": z},
        torch.where(condition != 0, x, z) + 0 * condition,
        values("where.dy", size, 1.0),
    )
    for case, function in (
        ("sum", lambda x: x.sum(0)),
        ("mean", lambda x: x.mean(-1, keepdim=True)),
        ("variance", lambda x: x.var(1)),
        ("amax", lambda x: x.amax((0, 1, 2))),
        ("amax_of_rows", lambda x: x.amax(1)),
    ):
        x = leaf(case + ".x", (3, 5, 19), 4.0)
        with torch.no_grad():
            x[0, 0], x[1, 2, 3] = x[0, 4], x.max() + 1  # equal ones; one largest of all
            x[2, 4, 5] = x[1, 2, 3]
        y = function(x)
        keep(
            out,
            case,
            {"x": x},
            y,
            values(case + ".dy", y.shape, 1.0) if y.ndim else torch.tensor(1.0, dtype=torch.float64),
        )
    save("elements", out)


def tensor_ops():
    """Ops over dimensions and by index, in float64."""
    out = {}

    def case(name, x, function, **others):
        leaves = {"x": x, **others}
        y = function(*leaves.values())
        keep(out, name, leaves, y, values(name + ".dy", y.shape, 1.0))

    case("log_softmax", leaf("log_softmax.x", (3, 5, 19), 8.0), lambda x: x.log_softmax(-1))
    case("cumsum", leaf("cumsum.x", (3, 7, 5), 4.0), lambda x: x.cumsum(1))
    case("cumsum_last", leaf("cumsum_last.x", (4, 33), 4.0), lambda x: x.cumsum(-1))
    numbers = lambda name, shape, n: ((values(name, shape, 4096) + 4096).long() % n)
    index = {
        "gather": numbers("gather.index", (2, 11, 5), 7),
        "index_select": numbers("index_select.index", (11,), 7),
        "scatter_add": numbers("scatter_add.index", (2, 11, 4), 7),
        "index_add": numbers("index_add.index", (11,), 7),
    }
    for name, i in index.items():
        out[name + ".index"] = i.int()
    case("gather", leaf("gather.x", (3, 7, 5), 4.0), lambda x: x.gather(1, index["gather"]))
    case(
        "index_select",
        leaf("index_select.x", (3, 7, 5), 4.0),
        lambda x: x.index_select(1, index["index_select"]),
    )
    case(
        "scatter_add",
        leaf("scatter_add.x", (3, 7, 5), 4.0),
        lambda x, z: x.scatter_add(1, index["scatter_add"], z),
        z=leaf("scatter_add.z", (2, 11, 4), 4.0),
    )
    case(
        "index_add",
        leaf("index_add.x", (3, 7, 5), 4.0),
        lambda x, z: x.index_add(1, index["index_add"], z),
        z=leaf("index_add.z", (3, 11, 5), 4.0),
    )
    x = leaf("argmax.x", (3, 5, 19), 4.0)
    with torch.no_grad():
        x[0, 0], x[1, 2, 3] = x[0, 4], x.max() + 1  # equal ones; one largest of all
    for name, dim in (("argmax", None), ("argmax_first", 0), ("argmax_middle", 1)):
        # no gradient flows; the product with zeros gives keep() one to store
        case(name, x.detach().clone().requires_grad_(), lambda x: x.argmax(dim).double() + 0 * x.sum())
    for name, a, b, function in (
        ("matmul", (2, 1, 5, 7), (3, 7, 4), lambda x, z: x @ z),
        ("matmul_tb", (2, 3, 5, 7), (2, 3, 4, 7), lambda x, z: x @ z.mT),
        ("matmul_ta", (3, 7, 5), (3, 7, 4), lambda x, z: x.mT @ z),
        ("matmul_tab", (3, 7, 5), (3, 4, 7), lambda x, z: x.mT @ z.mT),
        ("matmul_shared", (3, 5, 7), (7, 4), lambda x, z: x @ z),
    ):
        case(name, leaf(name + ".x", a, 2.0), function, z=leaf(name + ".z", b, 2.0))
    gain, bias = (lambda name: leaf(name + ".z", (6,), 0.5, 1.0)), (lambda name: leaf(name + ".b", (6,), 1.0))
    for name, groups in (("group_norm", 3), ("instance_norm", 6)):
        case(
            name,
            leaf(name + ".x", (2, 6, 4, 5), 4.0),
            lambda x, z, b: F.group_norm(x, groups, z, b, 1e-5),
            z=gain(name),
            b=bias(name),
        )
    case("plain_norm", leaf("plain_norm.x", (2, 6, 9), 4.0), lambda x: F.instance_norm(x))
    save("tensor_ops", out)


def recurrent():
    """LSTM and GRU of two layers in both directions, with states, and plain ones: outputs, states and the
    gradients of sum(y * dy + h * dh + c * dc)."""
    out = {}
    for kind, module in (("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU)):
        for tag, options in (("deep", dict(num_layers=2, bidirectional=True)), ("plain", dict(bias=False))):
            case = f"{kind}_{tag}."
            model = fill(module(5, 6, batch_first=True, **options).double())
            directions = 4 if tag == "deep" else 1
            x = leaf(case + "x", (3, 7, 5), 2.0)
            states = (
                [leaf(f"{case}{s}0", (directions, 3, 6), 1.0) for s in ("hc" if kind == "lstm" else "h")]
                if tag == "deep"
                else []
            )
            y, last = model(x, (tuple(states) if kind == "lstm" else states[0]) if states else None)
            last = last if kind == "lstm" else (last,)
            loss = 0
            for name, v in zip(("y", "h", "c"), (y, *last)):
                v = v if name == "y" else v.transpose(0, 1)  # batch first
                out[case + name], out[case + "d" + name] = v, values(case + "d" + name, v.shape, 1.0)
                loss = loss + (v * out[case + "d" + name]).sum()
            loss.backward()
            out[case + "x"], out[case + "dx"] = x, x.grad
            for s, v in zip(("h0", "c0"), states):
                out[case + s], out[case + "d" + s] = v.transpose(0, 1), v.grad.transpose(0, 1)
            for name, p in model.named_parameters():
                out[case + name], out[case + "grad." + name] = p, p.grad
    save("recurrent", out)


def rates(make):
    """Learning rates of 50 steps, as the optimizer uses them."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler, result = make(optimizer), []
    for _ in range(50):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return torch.tensor(result, dtype=torch.float64)


def warm(optimizer, make, steps=8):
    """Ramp (s+1)/steps, then the schedule proper from its own step 0."""
    ramp = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / steps, 1.0, steps - 1)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [ramp, make(optimizer)], [steps])


def scaler_run(out, name, make):
    """torch.amp.GradScaler(init_scale 65536, growth_interval 3) over steps of which some overflow."""
    applied = [1, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = make([p])
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=3)
    rows = {"scale": [], "good": [], "weight": []}
    for k, good in enumerate(applied):
        gradient = float(values("scaler.gradient", (16,), 1.0)[k])
        scaler.scale(p * gradient).backward()
        if not good:
            p.grad.fill_(float("inf") if k % 2 else float("nan"))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        for key, value in zip(rows, (scaler.get_scale(), scaler._get_growth_tracker(), float(p.detach()))):
            rows[key].append(value)
    out["scaler.applied"] = torch.tensor(applied, dtype=torch.int32)
    out["scaler.gradient"] = values("scaler.gradient", (16,), 1.0).float()
    out["scaler.scale"], out["scaler.good"] = torch.tensor(rows["scale"]), torch.tensor(
        rows["good"], dtype=torch.int32
    )
    out[f"scaler.{name}.weight"] = torch.tensor(rows["weight"])


def scalars():
    """Schedules (base rate 0.1) and the loss scaler."""
    s = torch.optim.lr_scheduler
    step, linear = (lambda o: s.StepLR(o, 7, 0.5)), (lambda o: s.LinearLR(o, 1.0, 0.01, 40))
    out = {
        "schedule.constant": rates(lambda o: s.ConstantLR(o, 1.0, 1)),
        "schedule.step": rates(step),
        "schedule.cosine": rates(lambda o: s.CosineAnnealingLR(o, 50, 0.001)),
        "schedule.linear": rates(linear),
        "schedule.warmup_constant": rates(lambda o: warm(o, lambda p: s.ConstantLR(p, 1.0, 1))),
        "schedule.warmup_step": rates(lambda o: warm(o, step)),
        "schedule.warmup_cosine": rates(lambda o: warm(o, lambda p: s.CosineAnnealingLR(p, 42, 0.001))),
        "schedule.warmup_linear": rates(lambda o: warm(o, lambda p: s.LinearLR(p, 1.0, 0.01, 42))),
    }
    scaler_run(out, "sgd", lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9))
    scaler_run(out, "adam", lambda p: torch.optim.Adam(p, lr=0.01))
    save("scalars", out)


def picture_ops(out):
    """The ops of convolutional networks, whole, in float64."""
    x, w, b = leaf("conv.x", (2, 4, 9, 7), 2.0), leaf("conv.w", (6, 2, 3, 2), 0.5), leaf("conv.b", (6,), 0.5)
    y = F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 3), groups=2)
    keep(out, "conv", {"x": x, "w": w, "b": b}, y, values("conv.dy", y.shape, 1.0))
    x = values("max_pool.x", (2, 3, 7, 8), 2.0).round().requires_grad_()  # -2 .. 2: many are equal
    y = F.max_pool2d(x, (3, 2), (2, 2), (1, 0))
    keep(out, "max_pool", {"x": x}, y, values("max_pool.dy", y.shape, 1.0))
    x = leaf("avg_pool.x", (2, 3, 7, 5), 2.0)
    y = F.adaptive_avg_pool2d(x, (3, 2))
    keep(out, "avg_pool", {"x": x}, y, values("avg_pool.dy", y.shape, 1.0))
    for case, training in (("batch_norm", True), ("batch_norm_eval", False)):
        x, gain, bias = (
            leaf(case + ".x", (5, 3, 2, 4), 2.0, 16.0),
            leaf(case + ".gain", (3,), 0.5, 1.0),
            leaf(case + ".bias", (3,), 0.5),
        )
        mean, variance = values(case + ".mean", (3,), 0.5, 16.0), values(case + ".variance", (3,), 0.5, 1.0)
        out[case + ".mean"], out[case + ".variance"] = mean.clone(), variance.clone()
        y = F.batch_norm(x, mean, variance, gain, bias, training, 0.1, 1e-5)
        out[case + ".mean_after"], out[case + ".variance_after"] = mean, variance
        keep(out, case, {"x": x, "gain": gain, "bias": bias}, y, values(case + ".dy", y.shape, 1.0))


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
    from decoder import MODELS  # the only one that needs transformers

    ids = (values("decoder.ids", (5 * 3, 9), 4096) + 4096).long() % 37
    targets = torch.cat([ids[:, 1:], ids[:, :1]], 1)
    targets[1, 5:] = targets[2, 0] = -100
    out = {"ids": ids.int(), "targets": targets.int()}
    for name, make in MODELS.items():
        model = fill(make().double())
        loss_of = lambda logits, at: F.cross_entropy(
            logits.flatten(0, 1), targets[at].flatten(), ignore_index=-100
        )
        logits = model(ids[:3]).logits
        loss = loss_of(logits, slice(0, 3))
        loss.backward()
        out[name + ".logits"], out[name + ".loss"] = logits.flatten(0, 1), loss
        for key, p in model.named_parameters():
            out[f"{name}.grad.{key}"], out[f"{name}.grad_max.{key}"] = sample(p.grad, 64), p.grad.abs().max()
        optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1), []
        for k in range(5):
            at = slice(3 * k, 3 * k + 3)
            loss = loss_of(model(ids[at]).logits, at)
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
