"""Twenty steps of the small MLP in float64 with what an optimizer can do beside PyTorch's Adam, AdamW and
SGD: groups of parameters with settings of their
own (param_groups), Lion, and the moving average of torch.optim.swa_utils. Muon is torch.optim.Muon, as it is
and with
its iteration in float64; Adafactor is that of transformers. PyTorch has no Lion: `Lion` below is algorithm 2
of its paper (Chen et al. 2023).
"""

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
        out[name + ".losses"] = train(
            model,
            optimizer,
            images,
            labels,
            (lambda: average.update_parameters(model)) if ema else (lambda: None),
        )
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
    record(
        "groups_sgd", lambda m: torch.optim.SGD(split(m, rules(m), 5e-2, 0.01), momentum=0.9, nesterov=True)
    )

    def two(model):
        """Muon for the hidden matrices, AdamW for biases and the head, as one optimizer."""
        named = list(model.named_parameters())
        hidden = [p for n, p in named if p.ndim == 2 and not n.startswith("head")]
        rest = [p for n, p in named if p.ndim != 2 or n.startswith("head")]

        class Both:
            def __init__(self):
                self.all = [
                    torch.optim.Muon(hidden, lr=2e-2, weight_decay=0.1),
                    torch.optim.AdamW(rest, lr=2e-2, weight_decay=0.1),
                ]

            def zero_grad(self):
                [o.zero_grad() for o in self.all]

            def step(self):
                [o.step() for o in self.all]

        return Both()

    record("muon_bf16", two)  # torch.optim.Muon as it is: its iteration in bf16
    plain = torch.Tensor.bfloat16
    torch.Tensor.bfloat16 = lambda t: t.clone()  # the same in float64
    record("muon", two)
    torch.Tensor.bfloat16 = plain
    from transformers.optimization import Adafactor

    record("adafactor", lambda m: Adafactor(m.parameters()))
    record(
        "adafactor_warmup",
        lambda m: Adafactor(m.parameters(), warmup_init=True, weight_decay=0.1, clip_threshold=0.5),
    )
    record(
        "adafactor_lr",
        lambda m: Adafactor(m.parameters(), lr=1e-2, relative_step=False, scale_parameter=False),
    )
    record("lion", lambda m: Lion(m.parameters(), lr=3e-3, weight_decay=0.1), ema=0.99)
    return out
