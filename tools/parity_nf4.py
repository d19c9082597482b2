#!/usr/bin/env python3
"""parity_nf4.py - weights of 4 bits by bitsandbytes and by lockstep, of one llama: bytes, scales, the
numbers that they stand for, and what the two models compute. All are equal where PyTorch's mean of the scales
is exact, as it is for these weights of bf16. Part of `make parity`; without bitsandbytes (pip install
bitsandbytes) it says so and passes.

    python tools/parity_nf4.py [build/lockstep]"""

import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

try:
    import bitsandbytes.functional as bnb
except ImportError:
    print("bitsandbytes is not installed here: weights of 4 bits were not compared")
    sys.exit(0)

LOCKSTEP = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
TOKENS, ROWS = 64, 16
TEXT = "".join(chr(32 + (i * 7919 + 13 + i // TOKENS * 977) % 90) for i in range(ROWS * TOKENS))
STATE = "quant_state.bitsandbytes__nf4"
RECIPE = """\
model: {{init: {init}, base: nf4}}
data: {{type: text, train_text: text, eval_text: text, tokenizer: bytes, seq_length: %d}}
train: {{steps: 1, global_batch: 1, freeze: "* !pattern:*norm*"}}
optimizer: {{type: sgd, lr: 0, momentum: 0, weight_decay: 0}}
eval: {{every_epochs: -1}}
run: {{name: {init}}}
""" % (
    TOKENS
)


def run(folder, *words):
    said = subprocess.run([LOCKSTEP, *words], cwd=folder, check=True, stdout=subprocess.PIPE)
    return said.stdout.decode()


def compare(dtype, folder):
    torch.manual_seed(5)
    sizes = dict(vocab_size=257, hidden_size=512, intermediate_size=1024, num_hidden_layers=2)
    model = LlamaForCausalLM(LlamaConfig(num_attention_heads=8, num_key_value_heads=4, **sizes)).to(dtype)
    model.save_pretrained(folder + "/plain")
    how = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
    )
    theirs = AutoModelForCausalLM.from_pretrained(
        folder + "/plain", quantization_config=how, device_map="cpu", dtype=torch.float32
    )
    theirs.save_pretrained(folder + "/quantised")
    with open(folder + "/text", "w", encoding="utf-8") as f:
        f.write(TEXT)
    losses, texts = [], []
    for init in ("plain", "quantised"):
        with open(folder + "/recipe.yaml", "w", encoding="utf-8") as f:
            f.write(RECIPE.format(init=init))
        run(folder, "train", "recipe.yaml", "-q")
        losses.append(json.loads(run(folder, "eval", "runs/" + init, "--json"))["loss"])
        said = run(folder, "predict", "runs/" + init, "--prompt", "abc", "--tokens", "60", "--json", "-q")
        texts.append(json.loads(said))
    a, b = (
        load_file(f"{folder}/{path}/model.safetensors")
        for path in ("runs/plain/checkpoints/latest", "quantised")
    )
    run(folder, "export", "runs/plain", "--to", "numbers.safetensors", "--dtype", "f32")
    numbers = load_file(folder + "/numbers.safetensors")
    # computes with bitsandbytes' numbers
    plain = AutoModelForCausalLM.from_pretrained(folder + "/plain", dtype=torch.float32)
    count = other = means = moved = 0
    for name in (n.removesuffix("." + STATE) for n in b if n.endswith(STATE)):
        parts = {k.removeprefix(name + "."): t for k, t in b.items() if k.startswith(name + ".")}
        state = bnb.QuantState.from_dict(parts, device="cpu")
        state.dtype = torch.float32
        values = bnb.dequantize_4bit(b[name], state)
        plain.get_parameter(name).data = values
        count += values.numel()
        offset = json.loads(bytes(b[f"{name}.{STATE}"].tolist()))["nested_offset"]
        other += not torch.equal(a[name].flatten(), b[name].flatten())
        bytes_moved = (a[name + ".absmax"].flatten() != b[name + ".absmax"]).sum().item()
        if a[name + ".nested_offset"].item() != offset:  # PyTorch's mean of the scales is not the exact one
            means += 1
            moved += bytes_moved
            continue
        other += bytes_moved > 0
        other += not torch.equal(a[name + ".nested_absmax"], b[name + ".nested_absmax"])
        other += not torch.equal(numbers[name], values)
    ids = [*TEXT.encode(), 256]  # with the end of a document; windows share a token
    ids = torch.tensor([ids[i : i + TOKENS + 1] for i in range(0, ROWS * TOKENS, TOKENS)])
    with torch.no_grad():
        logits = plain(input_ids=ids[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).item()
    same = losses[0] == losses[1] and texts[0]["ids"] == texts[1]["ids"]
    right = not other and count > 1000000 and (same if dtype == torch.bfloat16 else moved < 10)
    right = right and all(abs(x - loss) < 1e-6 * loss for x in losses)
    print(
        f"nf4 of {str(dtype)[6:]}: {count} numbers, {other} differences; {means} means that PyTorch rounds "
        f"otherwise, and {moved} bytes of scales by them; losses {losses[0]:.12f}, of bitsandbytes' folder "
        f"{losses[1]:.12f}, by transformers {loss:.7f}"
        + ("" if right else "  WRONG")
    )
    return right


torch.set_num_threads(1)
results = []
for dtype in (torch.bfloat16, torch.float32):
    with tempfile.TemporaryDirectory() as folder:
        results.append(compare(dtype, folder))
sys.exit(0 if all(results) else 1)
