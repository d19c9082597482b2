#!/usr/bin/env python3
"""State dicts of every model: what an export has to hold for PyTorch to load it strictly.

python tools/golden/strict.py make             # tests/golden/state_dicts.json: names, shapes, and which names
are one tensor
python tools/golden/strict.py check LOCKSTEP   # trains each model for a step, exports it to .pt and to a DCP
directory, and loads both into the model of
                                               # PyTorch or transformers: load_state_dict(strict=True), and
                                               dcp.load as docs/weights.md shows it
"""

import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [
    HERE
]  # the library `tokenizers` before the script of that name
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)  # noqa: E402

from convnext import ConvNeXt  # noqa: E402
from resnet import ResNet  # noqa: E402
from unet import UNet  # noqa: E402
from vit import VisionTransformer  # noqa: E402

NAMES = os.path.join(HERE, "..", "..", "tests", "golden", "state_dicts.json")

IMAGES = "data: {type: shapes}"
IDX = "data: {type: idx, train_images: images.idx, train_labels: labels.idx, eval_images: images.idx, eval_labels: labels.idx}"
ARRAYS = "data: {type: arrays, train: {x: x.npy, y: y.npy}, eval: {x: x.npy, y: y.npy}}"
TEXT = "data: {type: text, train_text: text.txt, eval_text: text.txt, tokenizer: bytes, seq_length: 8}"
PAIRS = "data: {type: pairs, train_text: pairs.csv, source: text, target: headline, tokenizer: bytes, source_length: 12, target_length: 5, eval_fraction: 0.25}"
DECODER = "vocab_size: 257, layers: 2, heads: 2, kv_heads: 1, hidden_size: 16, mlp_size: 24"
T5 = "vocab_size: 257, layers: 2, heads: 2, head_dim: 6, hidden_size: 16, mlp_size: 24, position_buckets: 8, position_distance: 16"


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(784, 9)])
        self.head = torch.nn.Linear(9, 10)


def decoder(model, config, tied):
    return lambda: model(
        config(
            vocab_size=257,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            hidden_size=16,
            intermediate_size=24,
            tie_word_embeddings=tied,
        )
    )


def t5(tied, own_head=False, **more):
    def make():
        model = T5ForConditionalGeneration(
            T5Config(
                vocab_size=257,
                num_layers=2,
                num_heads=2,
                d_kv=6,
                d_model=16,
                d_ff=24,
                relative_attention_num_buckets=8,
                relative_attention_max_distance=16,
                tie_word_embeddings=tied,
                **more,
            )
        )
        if own_head:  # transformers makes one when weights for both are loaded
            model.lm_head.weight = torch.nn.Parameter(torch.zeros(257, 16))
        return model

    return make


# name: (recipe, model)
MODELS = {
    "mlp": ("model: {type: mlp, hidden: [9]}\n" + IMAGES, Mlp),
    "vit": (
        "model: {type: vit, image_size: 28, patch_size: 7, layers: 2, heads: 2, hidden_size: 16, mlp_size: 24}\n"
        + IMAGES,
        lambda: VisionTransformer(layers=2, heads=2, hidden=16, mlp=24),
    ),
    "resnet18": ("model: {type: resnet18}\n" + IMAGES, lambda: ResNet(18)),
    "convnext_tiny": (
        "model: {type: convnext_tiny, image_size: 32}\n" + IDX,
        lambda: ConvNeXt(in_channels=1, classes=10),
    ),
    "unet": (
        "model: {type: unet, inputs: {x: [2, 8, 8]}, outputs: {y: [8, 8, 3]}, channels: 4, levels: 3}\nloss: {type: cross_entropy, of: y}\n"
        + ARRAYS,
        lambda: UNet(2, 3, 4, 3),
    ),
    "llama": (
        f"model: {{type: llama, {DECODER}, tied: false}}\n" + TEXT,
        decoder(LlamaForCausalLM, LlamaConfig, False),
    ),
    "llama tied": (
        f"model: {{type: llama, {DECODER}, tied: true}}\n" + TEXT,
        decoder(LlamaForCausalLM, LlamaConfig, True),
    ),
    "qwen2": (
        f"model: {{type: qwen2, {DECODER}, tied: false}}\n" + TEXT,
        decoder(Qwen2ForCausalLM, Qwen2Config, False),
    ),
    "qwen2 tied": (
        f"model: {{type: qwen2, {DECODER}, tied: true}}\n" + TEXT,
        decoder(Qwen2ForCausalLM, Qwen2Config, True),
    ),
    "t5 relu tied": (f"model: {{type: t5, {T5}, tied: true}}\n" + PAIRS, t5(True)),
    "t5 gated": (
        f"model: {{type: t5, {T5}, tied: false, feed_forward: gated-gelu}}\n" + PAIRS,
        t5(False, True, feed_forward_proj="gated-gelu"),
    ),
    "t5 gated tied": (
        f"model: {{type: t5, {T5}, tied: true, feed_forward: gated-gelu}}\n" + PAIRS,
        t5(True, feed_forward_proj="gated-gelu"),
    ),
}


def tied(state):
    """Groups of names of one tensor."""
    groups = {}
    for name, value in state.items():
        groups.setdefault((value.data_ptr(), value.shape) if value.numel() else name, []).append(name)
    return sorted(g for g in groups.values() if len(g) > 1)


def make():
    out = []
    for name, (recipe, model) in MODELS.items():
        state = model().state_dict()
        out.append(
            {
                "name": name,
                "recipe": recipe,
                "tensors": {k: list(v.shape) for k, v in state.items()},
                "tied": tied(state),
            }
        )
    with open(NAMES, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(m) for m in out) + "\n]\n")


def run(*words):
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 0, (words, result.stderr)


def same(got, want, what):
    assert got.keys() == want.keys(), (what, got.keys() ^ want.keys())
    for name in want:
        assert torch.equal(got[name], want[name]), (what, name)


def check(lockstep):
    lockstep = os.path.abspath(lockstep)
    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("text.txt", "w") as f:
            f.write("all the world is a stage, and all the men and women merely players. " * 8)
        with open("pairs.csv", "w") as f:
            f.write("text,headline\n" + "".join(f"the cat says {w},{w}\n" for w in "abcdefghijklmnop"))
        with open("images.idx", "wb") as f:
            f.write(struct.pack(">4I", 0x803, 4, 32, 32) + bytes(range(256)) * 16)
        with open("labels.idx", "wb") as f:
            f.write(struct.pack(">2I", 0x801, 4) + bytes([1, 5, 9, 0]))
        np.save("x.npy", np.arange(4 * 2 * 8 * 8, dtype="uint8").reshape(4, 2, 8, 8))
        np.save("y.npy", np.arange(4 * 8 * 8, dtype="uint8").reshape(4, 8, 8) % 3)
        for name, (recipe, build) in MODELS.items():
            run_name = name.replace(" ", "-")
            with open("recipe.yaml", "w") as f:
                f.write(
                    f"{recipe}\nrun: {{name: {run_name}}}\ntrain: {{steps: 1, global_batch: 2}}\noptimizer: {{type: adamw, lr: 0.01}}\nthreads: 1\n"
                    "eval: {every_epochs: -1}\ncheckpoint: {export: whole.pt}\n"
                )
            run(lockstep, "train", "recipe.yaml")
            where = f"runs/{run_name}"
            run(lockstep, "export", where, "--to", "out.pt", "--force")
            run(lockstep, "export", where, "--to", f"{run_name}/", "--format", "dcp", "--optimizer")
            wanted = load_file(where + "/checkpoints/latest/model.safetensors")

            state = torch.load("out.pt", weights_only=True)
            model = build()
            model.load_state_dict(state, strict=True)
            assert tied(state) == tied(model.state_dict()), name
            own = torch.load(where + "/whole.pt", weights_only=True)  # what the run has left at its end
            same(own, state, name)
            assert tied(own) == tied(state), name
            loaded = {k: v.clone() for k, v in model.state_dict().items()}
            same({k: loaded[k] for k in wanted}, wanted, name)

            model = build()
            optimizer = torch.optim.AdamW(model.parameters())
            weights, moments = get_state_dict(model, optimizer)
            both = {"model": weights, "optimizer": moments}
            dcp.load(both, checkpoint_id=run_name)
            set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
            same(model.state_dict(), loaded, name)
            moments = load_file(where + "/checkpoints/latest/optimizer.safetensors")
            names = {p: n for n, p in model.named_parameters()}
            for p, s in optimizer.state.items():
                assert torch.equal(s["exp_avg"], moments["exp_avg." + names[p]]) and s["step"].item() == 1, (
                    name,
                    names[p],
                )
            print(f"strict   {name}: {len(loaded)} names, {len(wanted)} tensors")


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        make()
    elif len(sys.argv) == 3 and sys.argv[1] == "check":
        check(sys.argv[2])
    else:
        sys.exit(__doc__)
