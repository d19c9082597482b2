"""What PyTorch computes in single operations and their gradients, in float64."""

import torch
import torch.nn.functional as F

from common import fill, save, values

ACTS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}


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
