"""The machines that were measured (bench/results.json), and which of them this one is.

Processors of different speed have one name in a virtual machine: Zen 4 and Zen 5 both say "AMD EPYC" and have the same
level. So family, model and the rate of a burst belong to what identifies a machine. A key that an entry does
not have was not recorded, and does not tell two machines apart."""

import json
import os

KEYS = ("cpu", "cores", "isa", "family", "model")
BURST = "gflops_f32_1"
APART = 1.5  # bursts of one machine differ less, with others on its cores

ORDER = (
    "vit",
    "vit-b16",
    "resnet",
    "resnet50",
    "convnext",
    "t5",
    "qwen",
    "generate",
    "ranks",
    "tp",
    "checkpoint",
    "start",
)


def same(a, b):
    for key in KEYS:
        if a.get(key) is not None and b.get(key) is not None and a[key] != b[key]:
            return False
    return max(a[BURST], b[BURST]) <= APART * min(a[BURST], b[BURST])


def load(path, here):
    """All machines that were measured, and this one among them."""
    machines = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            machines = json.load(f)["machines"]
    return machines, find(machines, here)


def find(machines, here):
    """The entry of this machine; a new one if none is the same."""
    for results in machines:
        if same(results["machine"], here):
            break
    else:
        results = {"rows": {}}
        machines.append(results)
    results["machine"] = here
    return results


def save(path, machines):
    for results in machines:
        results["rows"] = dict(
            sorted(results["rows"].items(), key=lambda row: ORDER.index(row[0].split()[0]))
        )

    def short(x):
        return (
            float(f"{x:.4g}")
            if isinstance(x, float)
            else (
                {k: short(v) for k, v in x.items()}
                if isinstance(x, dict)
                else [short(v) for v in x] if isinstance(x, list) else x
            )
        )

    with open(path, "w", encoding="utf-8") as f:
        json.dump(short({"machines": machines}), f, indent=1)
        f.write("\n")


def check():
    """What readme.py --check also asks: only measurements of one machine become one table."""
    zen4 = {"cpu": "AMD EPYC", "cores": 2, "isa": "avx512bf16", "family": 25, "model": 17, BURST: 118.0}
    others = {
        "family": zen4 | {"family": 26, BURST: 120.0},
        "model": zen4 | {"model": 160},
        "burst": {k: v for k, v in zen4.items() if k not in ("family", "model")} | {BURST: 276.0},
        "cores": zen4 | {"cores": 4},
        "isa": zen4 | {"isa": "avx2"},
    }
    for what, other in others.items():
        machines = [{"machine": zen4, "rows": {"vit f32 1": {}}}]
        if find(machines, other)["rows"] or len(machines) != 2:
            raise SystemExit(f"bench/machines.py: rows of another {what} go into one table")
    machines = [{"machine": zen4, "rows": {"vit f32 1": {}}}]
    if not find(machines, zen4 | {BURST: 95.0, "kernel": "another"})["rows"] or len(machines) != 1:
        raise SystemExit("bench/machines.py: a machine that was measured before is not found again")
