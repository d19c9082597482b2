#!/usr/bin/env python3
"""parity_encoders.py - BERTs that Lockstep trains for a few steps: transformers reads the checkpoint with the class that
its config.json names, and computes what `lockstep predict` writes, and for pairs of texts the loss of
sentence-transformers' formula.

    tools/parity_encoders.py build/lockstep"""

import csv
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers

GOLDEN = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "bert"))
COMMON = """
train: {epochs: 3, global_batch: 4}
optimizer: {type: adamw, lr: 1e-2}
run: {name: run}
"""
TAGS = """words,tags
Rough winds do shake,A B B C
coral is red,A B A
the eye of heaven,B A C A
love alters,A C
"""
KINDS = {
    "classes": (
        "model: {init: %s, inputs: {pair: [2, 14]}, outputs: {kind: [3]}}\n"
        'data: {type: arrays, train: {pair: "%s/pairs.csv:query,passage", kind: %s/pairs.csv}}\n'
        "loss: {type: cross_entropy, of: kind}\n",
        "kind",
    ),
    "words": (
        "model: {init: %s, inputs: {words: [9]}, outputs: {tags: [9, 3]}, reset: classifier}\n"
        "data: {type: arrays, train: {words: tags.csv, tags: tags.csv}, tokenizer: %s}\n"
        "loss: {type: cross_entropy, of: tags}\n# %s\n",
        "tags",
    ),
    "roberta": (
        "model: {init: %s/../roberta, inputs: {query: [12]}, outputs: {kind: [3]}}\n"
        "data: {type: arrays, train: {query: %s/pairs.csv, kind: %s/pairs.csv}}\n"
        "loss: {type: cross_entropy, of: kind}\n",
        "kind",
    ),
    "embeddings": (
        "model: {init: %s, inputs: {query: [8], passage: [12]}, outputs: {vector: [16]}}\n"
        "data: {type: arrays, train: {query: %s/pairs.csv, passage: %s/pairs.csv}}\n"
        "loss: {type: in_batch_negatives, of: vector}\n",
        "vector",
    ),
}


def theirs(kind, folder):
    """What the model of config.json computes for all rows, [rows, numbers]."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        name = json.load(f)["architectures"][0]
    auto = {
        "classes": transformers.AutoModelForSequenceClassification,
        "words": transformers.AutoModelForTokenClassification,
        "roberta": transformers.AutoModelForSequenceClassification,
        "embeddings": transformers.AutoModel,
    }[kind]
    model = auto.from_pretrained(folder).double().eval()
    assert type(model).__name__ == name, (type(model).__name__, name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with open(os.path.join(GOLDEN, "pairs.csv"), encoding="utf-8") as f:
        rows = list(csv.reader(f))[1:]
    texts = {
        "classes": ([r[0] for r in rows], [r[1] for r in rows]),
        "words": ([line.split(",")[0] for line in TAGS.splitlines()[1:]],),
        "roberta": ([r[0] for r in rows],),
        "embeddings": ([r[0] for r in rows],),
    }[kind]
    length = {"classes": 14, "words": 9, "roberta": 12, "embeddings": 8}[kind]
    x = tokenizer(*texts, truncation=True, max_length=length, padding="max_length", return_tensors="pt")
    with torch.no_grad():
        y = model(**x)
    if kind != "embeddings":
        # (numbers of padding are of no use, and masked here)
        mask = x["attention_mask"].unsqueeze(-1) if kind == "words" else 1
        return (y.logits * mask).flatten(1)
    mask = x["attention_mask"].unsqueeze(-1).double()
    return torch.nn.functional.normalize((y.last_hidden_state * mask).sum(1) / mask.sum(1), dim=1)


def check(command, kind):
    text, output = KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "recipe.yaml"), "w", encoding="utf-8") as f:
            f.write(text % (GOLDEN, GOLDEN, GOLDEN) + COMMON + "eval: {every_epochs: -1}\n")
        with open(os.path.join(folder, "tags.csv"), "w", encoding="utf-8") as f:
            f.write(TAGS)
        subprocess.run([command, "train", "recipe.yaml", "--quiet"], cwd=folder, check=True)
        words = ["predict", "runs/run", "--split", "train", "--output", output, "--out", "y.csv", "--quiet"]
        subprocess.run([command] + words, cwd=folder, check=True)
        with open(os.path.join(folder, "y.csv"), encoding="utf-8") as f:
            ours = torch.tensor([[float(x) for x in r[1:]] for r in list(csv.reader(f))[1:]]).double()
        want = theirs(kind, os.path.join(folder, "runs/run/checkpoints/latest"))
    off = ((ours - want) * (want != 0)).abs().max().item()
    print(f"{kind}: {tuple(want.shape)} numbers, at most {off:.2g} from those of transformers in float64")
    return off < 2e-5 and ours.shape == want.shape


if __name__ == "__main__":
    results = [check(os.path.abspath(sys.argv[1]), kind) for kind in KINDS]
    sys.exit(0 if all(results) else "numbers differ")
