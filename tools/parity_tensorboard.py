#!/usr/bin/env python3
"""Reads the event files of a run in two attempts with TensorBoard's own reader and compares them with
metrics.jsonl. Part of `make parity`; without
TensorBoard (pip install tensorboard) it says so and passes.

    python tools/parity_tensorboard.py [build/lockstep]"""

import glob
import json
import os
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
except ImportError:
    print("TensorBoard is not installed here: its event files were not read")
    sys.exit(0)

RECIPE = """\
run: {name: events}
model: {type: mlp, hidden: [8]}
data: {type: shapes}
train: {epochs: 1, global_batch: 64, steps: 5}
log: {tensorboard: true}
threads: 1
"""
TAGS = {
    "train/loss": ("step", "loss"),
    "train/lr": ("step", "lr"),
    "eval/loss": ("eval", "loss"),
    "eval/accuracy": ("eval", "accuracy"),
}


def scalars(path):
    """(tag, step) -> value, as TensorBoard's loader gives them; every event's time must lie behind the one
    before."""
    found, time = {}, 0.0
    for event in EventFileLoader(path).Load():
        assert event.wall_time >= time, f"{path}: time goes back at step {event.step}"
        time = event.wall_time
        for value in event.summary.value:
            found[value.tag, event.step] = value.tensor.float_val[0]
    return found


def main():
    lockstep = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "events.yaml"), "w") as f:
            f.write(RECIPE)
        for more in ([], ["--set", "train.steps=9"]):
            subprocess.run([lockstep, "train", "events.yaml", "-q", *more], cwd=folder, check=True)
        run, compared = os.path.join(folder, "runs", "events"), 0
        files = sorted(glob.glob(os.path.join(run, "tensorboard", "*")))
        with open(os.path.join(run, "metrics.jsonl")) as f:
            rows = [json.loads(line) for line in f]
        assert len(files) == 2, f"an event file for each of two attempts is wanted, not {files}"
        for attempt, path in enumerate(files):
            events = scalars(path)
            for tag, (kind, key) in TAGS.items():
                want = {
                    row["step"]: row[key] for row in rows if row["kind"] == kind and row["attempt"] == attempt
                }
                got = {step: value for (name, step), value in events.items() if name == tag}
                assert (
                    want.keys() == got.keys()
                ), f"{tag} of attempt {attempt}: steps {sorted(got)} instead of {sorted(want)}"
                assert all(
                    abs(got[step] - want[step]) <= 1e-6 * abs(want[step]) for step in want
                ), f"{tag} of attempt {attempt}: {got} instead of {want}"
                compared += len(want)
            assert sum(name == "train/images_per_second" for name, _ in events) == sum(
                row["kind"] == "step" and row["attempt"] == attempt for row in rows
            )
    print(f"TensorBoard reads the event files of both attempts: {compared} scalars as in metrics.jsonl\n")


if __name__ == "__main__":
    main()
