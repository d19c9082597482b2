#!/usr/bin/env python3
"""parity_decoders.py - language models of transformers that Lockstep trains for two steps: transformers reads
the checkpoint, and computes the loss that `lockstep eval` prints.

    tools/parity_decoders.py build/lockstep

Each begins as a folder that transformers saves, of random weights."""

import json
import os
import subprocess
import sys
import tempfile

import torch

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
sys.path.append(HERE)
from language import FOLDER, rows  # noqa: E402
from generate import SMALL  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, set_seed  # noqa: E402

RECIPE = """
data: {type: text, train_text: %s/text.txt, eval_text: %s/text.txt, tokenizer: bytes, documents: line,
       pack: false, seq_length: 32}
model: {init: start%s}
train: {steps: 2, global_batch: 2}
optimizer: {type: adamw, lr: 1e-3}
eval: {every_epochs: -1}
run: {name: run}
"""


def loss_of(model):
    """The mean over all targets of the text's rows."""
    with open(os.path.join(FOLDER, "text.txt"), encoding="utf-8") as f:
        ids, mask, labels = rows(f.read())
    with torch.no_grad():
        logits = model.double()(input_ids=ids, attention_mask=mask).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()).item()


def check(command, name, folder):
    set_seed(7)
    config = AutoConfig.for_model(name, **{**SMALL[name], "vocab_size": 257, "initializer_range": 0.2})
    AutoModelForCausalLM.from_config(config).save_pretrained(os.path.join(folder, "start"))
    with open(os.path.join(folder, "recipe.yaml"), "w", encoding="utf-8") as f:
        here = os.path.abspath(FOLDER)
        f.write(RECIPE % (here, here, ", dropout: 0, attention_dropout: 0" if name == "gpt2" else ""))
    subprocess.run([command, "train", "recipe.yaml", "--quiet"], cwd=folder, check=True)
    said = subprocess.run(
        [command, "eval", "runs/run", "--json"], cwd=folder, check=True, stdout=subprocess.PIPE
    )
    ours = json.loads(said.stdout)["loss"]
    checkpoint = os.path.join(folder, "runs/run/checkpoints/latest")
    # (the usual products of experts have no float64)
    theirs = loss_of(AutoModelForCausalLM.from_pretrained(checkpoint, experts_implementation="eager"))
    print(f"{name}: loss {ours:.7f}, of transformers {theirs:.7f}")
    return abs(ours - theirs) < 2e-6 * theirs


if __name__ == "__main__":
    command = os.path.abspath(sys.argv[1])
    ok = True
    for name in SMALL:
        with tempfile.TemporaryDirectory() as folder:
            ok = check(command, name, folder) and ok
    sys.exit(0 if ok else "losses differ")
