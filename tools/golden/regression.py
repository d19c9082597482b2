"""A multi-layer perceptron from named fields to named outputs, as a recipe has it: inputs and targets scaled
by mean and deviation of the training split, four
losses at once (huber with a mask for each element, mse with a weight for each sample, cross-entropy with
labels that do not count, bce), a ragged last batch.
All numbers come from common.formula, so the file holds results only."""

import torch
import torch.nn.functional as F

from common import parameter, values

N, BATCH, STEPS, X, Y, C, B, HIDDEN = 22, 8, 9, 5, 3, 4, 2, 7
SHAPES = {
    "layers.0": (HIDDEN, X + 1),
    "head.y": (Y, HIDDEN),
    "head.z": (1, HIDDEN),
    "head.c": (C, HIDDEN),
    "head.b": (B, HIDDEN),
}
f64 = torch.float64


def data():
    d = {
        "x": values("regression.x", (N, X), 2.0, 16.0),
        "u": values("regression.u", (N, 1), 1.0),
        "y": values("regression.y", (N, Y), 4.0, 64.0),
        "z": values("regression.z", (N, 1), 1.0, -8.0),
        "c": ((values("regression.c", (N,), 1.0) + 1) * 2).floor().long(),
        "b": (values("regression.b", (N, B), 0.5) + 0.5),
        "m": (values("regression.m", (N, Y), 1.0) > -0.25).to(f64),
        "w": values("regression.w", (N,), 1.0, 1.0),
    }
    d["c"][7] = -100
    d["w"][3] = 0
    d["y"][:, 1] = 64.0  # one value: its deviation becomes 1
    return d


def scaling(v):
    deviation = v.std(dim=0, correction=0)
    return v.mean(dim=0), torch.where(deviation == 0, 1.0, deviation)


def outputs(p, d, s):
    x = torch.cat([(d[k] - s[k][0]) / s[k][1] for k in ("x", "u")], dim=1)
    h = F.gelu(x @ p["layers.0.weight"].T + p["layers.0.bias"])
    return {k: h @ p[f"head.{k}.weight"].T + p[f"head.{k}.bias"] for k in "yzcb"}


def losses(o, d, s):
    scaled = {k: (d[k] - s[k][0]) / s[k][1] for k in "yz"}
    return [
        (d["m"] * F.huber_loss(o["y"], scaled["y"], reduction="none", delta=0.5)).sum() / d["m"].sum(),
        (d["w"][:, None] * (o["z"] - scaled["z"]) ** 2).sum() / d["w"].sum(),
        F.cross_entropy(o["c"], d["c"]),
        (d["w"] * F.binary_cross_entropy_with_logits(o["b"], d["b"], reduction="none").mean(1)).sum()
        / d["w"].sum(),
    ]


def total(parts):
    return parts[0] + 0.5 * parts[1] + 0.25 * parts[2] + 2 * parts[3]


def parameters(shapes):
    p = {f"{k}.weight": parameter(f"{k}.weight", v) for k, v in shapes.items()}
    p.update({f"{k}.bias": parameter(f"{k}.bias", v[:1]) for k, v in shapes.items()})
    return {k: v.requires_grad_() for k, v in p.items()}


def at(d, rows):
    return {k: v[rows] for k, v in d.items()}


def regression():
    d, out = data(), {}
    s = {k: scaling(d[k]) for k in "xuyz"}
    p, rows = parameters(SHAPES), []
    optimizer = torch.optim.SGD(p.values(), lr=0.5, momentum=0.5)
    steps = (N + BATCH - 1) // BATCH
    for k in range(STEPS):
        b = at(d, slice(k % steps * BATCH, min(k % steps * BATCH + BATCH, N)))
        parts = losses(outputs(p, b, s), b, s)
        optimizer.zero_grad()
        total(parts).backward()
        optimizer.step()
        rows.append([total(parts).item()] + [v.item() for v in parts])
    out["losses"] = torch.tensor(rows, dtype=f64)
    out.update({"after." + name: v.detach() for name, v in p.items()})
    out.update({f"scaling.{k}.{what}": s[k][i] for k in s for i, what in enumerate(("mean", "deviation"))})
    with torch.no_grad():
        o = outputs(p, d, s)
        parts = losses(o, d, s)
        there = {k: o[k] * s[k][1] + s[k][0] for k in "yz"}
        dy, dz = there["y"] - d["y"], (there["z"] - d["z"])[:, 0]
        valid = d["c"] >= 0

        def pooled(
            e,
            t,
            w,
            # rmse, mae, and r2 as scikit-learn has it: the mean over columns; 0 of a column that does not vary
        ):
            mean = (w * t).sum(0) / w.sum(0)
            spread = (w * (t - mean) ** 2).sum(0)
            r2 = torch.where(spread > 0, 1 - (w * e**2).sum(0) / spread, 0.0).mean()
            return [((w * e**2).sum() / w.sum()).sqrt(), (w * e.abs()).sum() / w.sum(), r2]

        out["evaluation"] = torch.stack([total(parts)] + parts)
        out["metrics_y"] = torch.stack(pooled(dy, d["y"], d["m"]))
        out["metrics_z"] = torch.stack(pooled(dz, d["z"][:, 0], d["w"]))
        out["accuracy"] = torch.stack(
            [
                (o["c"].argmax(1) == d["c"])[valid].to(f64).mean(),
                (d["w"] * ((o["b"] > 0) == (d["b"] > 0.5)).to(f64).mean(1)).sum() / d["w"].sum(),
            ]
        )
        out["y"], out["z"] = there["y"], there["z"][:, 0]
    # 100 steps of whole batches with Adam, one loss, for f32: the first 16 samples, by which it is scaled too
    d = at(d, slice(0, 16))
    s = {k: scaling(d[k]) for k in "xy"}
    p, curve = parameters({"layers.0": (HIDDEN, X), "head.y": (Y, HIDDEN)}), []
    optimizer = torch.optim.Adam(p.values(), lr=1e-2)
    for k in range(100):
        b = at(d, slice(k % 2 * BATCH, k % 2 * BATCH + BATCH))
        x = (b["x"] - s["x"][0]) / s["x"][1]
        o = F.gelu(x @ p["layers.0.weight"].T + p["layers.0.bias"]) @ p["head.y.weight"].T + p["head.y.bias"]
        loss = ((o - (b["y"] - s["y"][0]) / s["y"][1]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.detach())
    out["curve"] = torch.stack(curve)
    return out
