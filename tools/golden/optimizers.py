"""Twenty steps of the small MLP in float64 with what an optimizer can do beside PyTorch's Adam, AdamW and SGD: groups of parameters with settings of their
own (param_groups), Lion, and the moving average of torch.optim.swa_utils. PyTorch has no Lion: `Lion` below is algorithm 2 of its paper (Chen et al. 2023)."""
import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from common import normalize

STEPS, BATCH, BATCHES = 20, 6, 5


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                c = b1 * m + (1 - b1) * p.grad
                p.sub_(group["lr"] * (c.sign() + group["weight_decay"] * p))
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


def split(model, rules, lr, decay):
    """Groups of parameters: the first rule that takes a name; then the others."""
    left, groups = dict(model.named_parameters()), []
    for takes, factor, own in rules:
        names = [n for n in left if takes(n)]
        groups.append({"params": [left.pop(n) for n in names], "lr": lr * factor, "weight_decay": own})
    return groups + [{"params": list(left.values()), "lr": lr, "weight_decay": decay}]


def train(model, optimizer, images, labels, after=lambda: None):
    losses = []
    for k in range(STEPS):
        at = slice(k % BATCHES * BATCH, (k % BATCHES + 1) * BATCH)
        loss = F.cross_entropy(model(normalize(images[at], torch.float64)), labels[at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def optimizers(make_model, images, labels):
    out = {}

    def record(name, build, ema=None):
        model = make_model()
        optimizer = build(model)
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(ema)) if ema else None
        out[name + ".losses"] = train(model, optimizer, images, labels, (lambda: average.update_parameters(model)) if ema else (lambda: None))
        for n, p in model.named_parameters():
            out[f"{name}.weight.{n}"] = p.detach()
        if ema:
            for n, p in average.module.named_parameters():
                out[f"{name}.ema.{n}"] = p.detach()

    def bias(n):
        return n.endswith(".bias")

    def first(model):
        return next(iter(dict(model.named_parameters())))

    def rules(model):
        return [(bias, 1.0, 0.0), (lambda n: n == first(model), 0.25, 0.3)]

    record("groups_adamw", lambda m: torch.optim.AdamW(split(m, rules(m), 1e-2, 0.1)), ema=0.9)
    record("groups_sgd", lambda m: torch.optim.SGD(split(m, rules(m), 5e-2, 0.01), momentum=0.9, nesterov=True))
    record("lion", lambda m: Lion(m.parameters(), lr=3e-3, weight_decay=0.1), ema=0.99)
    return out
