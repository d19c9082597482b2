"""Metrics of predictions against targets (ls_measure_against) by the formulas of torchmetrics and
scikit-learn, on all samples at once, in f64. All inputs come
from common.formula, so the file holds results only."""

import torch

from common import values

N, OUT = 22, 3
f64 = torch.float64


def f1(said, true, classes):
    each = []
    for c in classes:
        tp, fp, fn = (
            ((said == c) & (true == c)).sum(),
            ((said == c) & (true != c)).sum(),
            ((said != c) & (true == c)).sum(),
        )
        if 2 * tp + fp + fn > 0:
            each.append(2 * tp.double() / (2 * tp + fp + fn))
    return torch.stack(each).mean()


def r2(y, t, w):
    """One for each column, then their mean."""
    mean = (w * t).sum(0) / w.sum(0)
    return (1 - (w * (y - t) ** 2).sum(0) / (w * (t - mean) ** 2).sum(0)).mean()


def auc(score, true):
    one, zero = score[true], score[~true]
    pairs = one[:, None] - zero[None, :]
    return ((pairs > 0).double() + 0.5 * (pairs == 0)).mean()


def metrics():
    y, t, w = (
        values("metrics.y", (N, OUT), 1.0),
        values("metrics.t", (N, OUT), 1.0),
        values("metrics.w", (N,), 1.0, 1.0),
    )
    w[3] = 0
    labels = torch.arange(N) * 7 % OUT
    labels[5] = -100
    y[1, 0] = y[2, 0] = y[3, 0]  # scores that tie
    good = t[:, 0] > 0
    counts, one, said = labels != -100, torch.ones_like(y), y.argmax(1)
    weights = w[:, None].expand_as(y)
    out = {
        "accuracy": (said == labels)[counts].double().mean(),
        "f1": f1(said[counts], labels[counts], range(OUT)),
        "perplexity": torch.nn.functional.cross_entropy(y, labels, ignore_index=-100).exp(),
        "rmse": ((y - t) ** 2).mean().sqrt(),
        "rmse_weighted": ((weights * (y - t) ** 2).sum() / weights.sum()).sqrt(),
        "mae": (y - t).abs().mean(),
        "r2": r2(y, t, one),
        "r2_weighted": r2(y, t, weights),
        "r2_far": r2(y + 1024, t + 1024, one),
        "right": ((y[:, 0] > 0) == good).double().mean(),
        "f1_of_scores": f1(y[:, 0] > 0, good, [True]),
        "auc": auc(y[:, 0], good),
    }
    return {name: value.reshape(1).to(f64) for name, value in out.items()}
