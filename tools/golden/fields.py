"""A regression with float inputs, float targets, a weight for each sample and a mask for each entry, two
losses at once, a ragged last batch: what a model of
one's own computes with ls_loss and ls_measure. All numbers come from common.formula, so the file holds
results only.
"""

import torch

from common import parameter, values

N, BATCH, STEPS, IN, HIDDEN, OUT = 22, 8, 9, 5, 7, 3
f64 = torch.float64


def data():
    x, t = values("fields.x", (N, IN), 1.0), values("fields.t", (N, OUT), 1.0)
    w = values("fields.w", (N,), 1.0, 1.0)
    w[3] = 0
    valid = values("fields.valid", (N, OUT), 1.0) > -0.25
    valid[5] = False
    return x, t, w, valid


def model(p, x):
    return torch.tanh(x @ p["fc1.weight"].T + p["fc1.bias"]) @ p["fc2.weight"].T + p["fc2.bias"]


def parameters():
    shapes = {
        "fc1.weight": (HIDDEN, IN),
        "fc1.bias": (HIDDEN,),
        "fc2.weight": (OUT, HIDDEN),
        "fc2.bias": (OUT,),
    }
    return {name: parameter(name, shape).requires_grad_() for name, shape in shapes.items()}


def parts(p, x, t, w, valid):
    d = model(p, x) - t
    return (w[:, None] * d**2).sum() / w.sum(), torch.where(valid, d.abs(), 0).sum() / valid.sum()


def fields():
    x, t, w, valid = data()
    p, out = parameters(), {}
    optimizer, rows = torch.optim.SGD(p.values(), lr=0.5, momentum=0.5), []
    steps = (N + BATCH - 1) // BATCH
    for k in range(STEPS):
        at = slice(k % steps * BATCH, min(k % steps * BATCH + BATCH, N))
        squares, distance = parts(p, x[at], t[at], w[at], valid[at])
        loss = squares + 0.25 * distance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows.append([loss.item(), squares.item(), distance.item()])
    out["losses"] = torch.tensor(rows, dtype=f64)
    out.update({"after." + name: v.detach() for name, v in p.items()})
    with torch.no_grad():
        squares, distance = parts(p, x, t, w, valid)
        d = model(p, x) - t
        out["evaluation"] = torch.tensor(
            [squares + 0.25 * distance, squares, distance, (d**2).mean(), d.abs().max(), (d**2).sum() / N],
            dtype=f64,
        )
    # 100 steps of whole batches with Adam, a mean over all elements: for f32
    p, losses = parameters(), []
    optimizer = torch.optim.Adam(p.values(), lr=1e-2)
    for k in range(100):
        at = slice(k % 2 * BATCH, k % 2 * BATCH + BATCH)
        loss = ((model(p, x[at]) - t[at]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    out["regression"] = torch.stack(losses)
    return out
