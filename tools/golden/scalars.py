"""PyTorch's learning rate schedules and its loss scaler."""

import torch

from common import save, values


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
