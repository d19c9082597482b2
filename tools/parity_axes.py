#!/usr/bin/env python3
"""parity_axes.py - a small Llama, trained by PyTorch in one process and by lockstep over axes of a mesh: the loss of
every step, and every weight afterwards.

    tools/parity_axes.py build/lockstep

float32 must be within 1e-5 of PyTorch's losses and, of each tensor, within 1e-3 of the distance that it travelled
(2-norms); float64, on device ref, within 1e-11 of that distance. (metrics.jsonl has losses as float32.)"""

import json
import os
import subprocess
import sys
import tempfile

import torch

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
sys.path.append(HERE)
from language import FOLDER, rows  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM, LlamaConfig, set_seed  # noqa: E402

STEPS, BATCH = 10, 8  # (two epochs)
MODEL = {
    "vocab_size": 257,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "initializer_range": 0.1,
}
RECIPE = """
data: {type: text, train_text: %s/text.txt, eval_text: %s/text.txt, tokenizer: bytes, documents: line,
       pack: false, seq_length: 32, shuffle: false}
model: {init: start}
train: {epochs: 2, global_batch: 8, micro_batch: 2, clip_norm: 1}
optimizer: {type: adamw, lr: 1e-3, weight_decay: 0.01}
parallel: {units: "class:LlamaDecoderLayer"}
eval: {every_epochs: 0}
threads: 1
"""
WAYS = {  # ranks, mesh, schedule of a pipeline
    "one process": (1, "{dp: 1}", None),
    "tp 2": (2, "{dp: 1, tp: 2}", None),
    "cp 2": (2, "{dp: 1, cp: 2}", None),
    "dp 2, cp 2": (4, "{dp: 2, cp: 2}", None),
    "pp 2, 1f1b": (2, "{pp: 2}", "1f1b"),
    "pp 2, gpipe": (2, "{pp: 2}", "gpipe"),
    "pp 2, zero_bubble": (2, "{pp: 2}", "zero_bubble"),
    "pp 2, interleaved": (2, "{pp: 2}", "interleaved"),
    "pp 4, zero_bubble": (4, "{pp: 4}", "zero_bubble"),
    "dp 2, pp 2, interleaved": (4, "{dp: 2, pp: 2}", "interleaved"),
}
IN_FLOAT64 = ["cp 2", "pp 2, zero_bubble", "dp 2, pp 2, interleaved"]


def norm(self, x):
    """LlamaRMSNorm.forward, which computes in float32, in float64."""
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def rotary(self, x, position_ids):
    """LlamaRotaryEmbedding.forward in float64."""
    n = 2 * len(self.inv_freq)
    theta = self.config.rope_parameters["rope_theta"]
    freqs = position_ids[..., None] * theta ** (-torch.arange(0, n, 2, dtype=torch.float64) / n)
    emb = torch.cat((freqs, freqs), dim=-1)
    return emb.cos(), emb.sin()


def train(model, dtype):
    """PyTorch's losses, and the weights afterwards."""
    for m in model.modules() if dtype == torch.float64 else []:
        if type(m).__name__ == "LlamaRMSNorm":
            m.forward = norm.__get__(m)
        elif type(m).__name__ == "LlamaRotaryEmbedding":
            m.forward = rotary.__get__(m)
    with open(os.path.join(FOLDER, "text.txt"), encoding="utf-8") as f:
        ids, mask, labels = rows(f.read())
    model = model.to(dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, foreach=False)
    losses, per_epoch = [], len(ids) // BATCH
    for k in range(STEPS):
        at = slice(k % per_epoch * BATCH, (k % per_epoch + 1) * BATCH)
        logits = model(input_ids=ids[at], attention_mask=mask[at], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[at, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64), weights_of(model)


def weights_of(model):
    return {name: p.detach().double().clone() for name, p in model.named_parameters()}


def run(command, folder, name, way, dtype):
    ranks, mesh, schedule = WAYS[way]
    words = ["--workers", str(ranks), "--set", "parallel.mesh=" + mesh, "--set", "run.name=" + name]
    words += ["--set", "parallel.schedule=" + schedule] if schedule else []
    words += ["--set", "device=ref", "--set", "precision.param=f64"] if dtype == torch.float64 else []
    subprocess.run([command, "train", "recipe.yaml", "--quiet", *words], cwd=folder, check=True)
    with open(os.path.join(folder, "runs", name, "metrics.jsonl"), encoding="utf-8") as f:
        losses = [row["loss"] for row in map(json.loads, f) if row["kind"] == "step"]
    weights = load_file(os.path.join(folder, "runs", name, "checkpoints/latest/model.safetensors"))
    return torch.tensor(losses, dtype=torch.float64), {n: w.double() for n, w in weights.items()}


def check(command, folder):
    set_seed(7)
    AutoModelForCausalLM.from_config(LlamaConfig(**MODEL)).save_pretrained(os.path.join(folder, "start"))
    with open(os.path.join(folder, "recipe.yaml"), "w", encoding="utf-8") as f:
        f.write(RECIPE % (os.path.abspath(FOLDER), os.path.abspath(FOLDER)))
    good = True
    for dtype, of_loss, of_weights in ((torch.float32, 1e-5, 1e-3), (torch.float64, 1e-6, 1e-11)):
        model = AutoModelForCausalLM.from_pretrained(os.path.join(folder, "start"))
        start = weights_of(model)
        losses, weights = train(model, dtype)
        for i, way in enumerate(WAYS if dtype == torch.float32 else IN_FLOAT64):
            ours, w = run(command, folder, f"{str(dtype)[6:]}-{i}", way, dtype)
            loss = (ours - losses).abs().max().item() if len(ours) == STEPS else float("inf")
            worst = max(((w[n] - x).norm() / (x - start[n]).norm()).item() for n, x in weights.items())
            ok = loss <= of_loss and worst <= of_weights
            print(f"{str(dtype)[6:]} {way:24} losses {loss:.2e}, weights {worst:.2e}{'' if ok else ': FAILED'}")
            good = good and ok
    return good


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        sys.exit(0 if check(os.path.abspath(sys.argv[1]), work) else "losses or weights differ")
