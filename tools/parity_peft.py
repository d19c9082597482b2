#!/usr/bin/env python3
"""LoRA by PEFT and by lockstep: 20 steps of a llama, a qwen2 and a t5 from the same folder, which PEFT wrote,
compared with PEFT in float64. Then PEFT loads lockstep's checkpoint, and both merge it. Part of `make parity`;
without PEFT (pip install peft) it says so and passes. With LOCKSTEP_DATA also the stories260K that lies there.

    python tools/parity_peft.py [build/lockstep]"""

import json
import os
import subprocess
import sys
import tempfile
import warnings

import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers import T5Config, T5ForConditionalGeneration

try:
    from peft import LoraConfig, PeftModel, get_peft_model
except ImportError:
    print("PEFT is not installed here: adapters were not compared")
    sys.exit(0)

LOCKSTEP = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
STEPS, BATCH, TOKENS, LR, END = 20, 4, 64, 1e-2, 256  # END: what the tokenizer `bytes` puts after a text
EPS = 1e-6  # of the optimizer: with less the sign of a gradient that is all rounding decides a step
STORIES_EPS = 1e-4  # stories260K has more such gradients: with 1e-6 PEFT's own f32 is 4e-4 from its f64
TOLERANCE = 3e-5  # of the adapters after 20 steps, relative to float64, in the 2-norm
TEXT = "".join(chr(32 + (i * 7919 + 13 + i // TOKENS * 977) % 90) for i in range(BATCH * TOKENS + 1))
SMALL = dict(vocab_size=257, hidden_size=32, intermediate_size=48, num_hidden_layers=2)
RECIPE = """\
run: {{name: run, storage: {folder}/runs}}
model: {{init: {folder}/adapter}}
data: {{type: {data}, shuffle: false, tokenizer: bytes, {more}}}
train: {{steps: {steps}, epochs: {steps}, global_batch: {batch}, micro_batch: 1}}
optimizer: {{type: adamw, lr: {lr}, eps: {eps}, weight_decay: 0}}
eval: {{every_epochs: -1}}
threads: 1
"""


STORIES = os.path.join(os.environ.get("LOCKSTEP_DATA", ""), "stories260K")


def stories():
    return LlamaForCausalLM.from_pretrained(STORIES, dtype=torch.float32)


def llama():
    return LlamaForCausalLM(LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **SMALL))


def qwen2():
    return Qwen2ForCausalLM(Qwen2Config(num_attention_heads=4, num_key_value_heads=2, **SMALL))


def t5():
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=257,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
            feed_forward_proj="gated-gelu",  # relu has a kink: where a sum is nearly 0, rounding decides
        )
    )


def windows():
    """The batch of each step: the text in windows, which share one token."""
    ids = torch.tensor(list(TEXT.encode()))
    rows = torch.stack([ids[i : i + TOKENS + 1] for i in range(0, BATCH * TOKENS, TOKENS)])
    return dict(input_ids=rows, labels=rows)


def lines(number):
    text = TEXT[number * TOKENS : (number + 1) * TOKENS]
    return text[: TOKENS - 1], text[::-1][: TOKENS // 2 - 1]


def pairs():
    """The same of a t5: lines with an end token."""
    both = [lines(i) for i in range(BATCH)]
    ids = [torch.tensor([list(b[k].encode()) + [END] for b in both]) for k in (0, 1)]
    return dict(input_ids=ids[0], labels=ids[1])


def plain(name):
    return name.replace("base_model.model.", "").replace(".default", "").replace(".modules_to_save", "")


def by_peft(folder, base, dtype, batch, eps):
    model = base().from_pretrained(folder + "/base")
    model = PeftModel.from_pretrained(model, folder + "/adapter", is_trainable=True)
    model = model.to(dtype).train()
    trained = {plain(n): p for n, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(trained.values(), lr=LR, eps=eps, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        loss = model(**batch()).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    with torch.no_grad():
        losses.append(model(**batch()).loss.item())
    return losses, {n: p.detach().double() for n, p in trained.items()}


def far(ours, truth):
    assert set(ours) == set(truth), sorted(set(ours) ^ set(truth))[:4]
    wrong = sum(((ours[n].double() - truth[n]) ** 2).sum().item() for n in truth)
    return (wrong / sum((t**2).sum().item() for t in truth.values())) ** 0.5


def compare(name, make, data, eps=EPS, **options):
    torch.manual_seed(3)
    batch = pairs if data == "pairs" else windows
    with tempfile.TemporaryDirectory() as folder:
        model = make()
        base = lambda: type(model)
        model.save_pretrained(folder + "/base")
        model = base().from_pretrained(folder + "/base")  # so that its name is in adapter_config.json
        task = "SEQ_2_SEQ_LM" if data == "pairs" else "CAUSAL_LM"
        config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type=task, **options)
        get_peft_model(model, config).save_pretrained(folder + "/adapter")
        with open(folder + "/text", "w") as f:
            if data == "pairs":
                for i in range(BATCH):
                    f.write(json.dumps(dict(zip(("source", "target"), lines(i)))) + "\n")
            else:
                f.write(TEXT)
        more = f"train_text: {folder}/text, eval_text: {folder}/text, "
        if data == "pairs":
            more += f"source: source, target: target, source_length: {TOKENS}, target_length: {TOKENS // 2}"
        else:
            more += f"seq_length: {TOKENS}, pack: true"
        with open(folder + "/run.yaml", "w") as f:
            f.write(RECIPE.format(folder=folder, data=data, more=more, steps=STEPS, batch=BATCH, lr=LR, eps=eps))
        subprocess.run([LOCKSTEP, "train", folder + "/run.yaml", "-q"], check=True)
        latest = folder + "/runs/run/checkpoints/latest"
        with open(folder + "/runs/run/metrics.jsonl") as f:
            ours = [r["loss"] for r in map(json.loads, f) if r["kind"] == "step"]
        weights = {plain(n): t for n, t in load_file(latest + "/adapter_model.safetensors").items()}
        single, exact = (by_peft(folder, base, dtype, batch, eps) for dtype in (torch.float32, torch.float64))
        wrong, theirs = far(weights, exact[1]), far(single[1], exact[1])
        apart = max(abs(a - b) / b for a, b in zip(ours, exact[0]))

        with warnings.catch_warnings(record=True) as said:  # PEFT warns of keys that it does not find
            warnings.simplefilter("always")
            loaded = PeftModel.from_pretrained(base().from_pretrained(folder + "/base"), latest)
        said = [str(w.message) for w in said if "missing" in str(w.message)]
        with torch.no_grad():
            loss = loaded(**batch()).loss.item()
        merged = loaded.merge_and_unload().state_dict()
        subprocess.run(
            [LOCKSTEP, "export", folder + "/runs/run", "--merge", "--to", folder + "/m.safetensors"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        mine = load_file(folder + "/m.safetensors")
        merging = max((mine[n] - merged[n]).abs().max().item() for n in mine)
    right = len(ours) == STEPS and wrong < TOLERANCE and apart < 1e-5 and not said and merging < 1e-6
    right = right and abs(loss - exact[0][-1]) < 2e-5 * loss
    print(
        f"{name:20} adapters {wrong:.1e} from PEFT's f64 (PEFT's f32: {theirs:.1e}), losses {apart:.1e}; "
        f"loaded by PEFT: loss {loss:.6f} ({exact[0][-1]:.6f}), merged {merging:.1e}"
        + ("" if right else f"  WRONG {said}")
    )
    return right


torch.set_num_threads(1)
results = [
    compare("llama", llama, "text"),
    compare("llama, rslora, save", llama, "text", use_rslora=True, modules_to_save=["model.norm"]),
    compare("qwen2", qwen2, "text"),
    compare("t5", t5, "pairs"),
    not os.path.exists(STORIES) or compare("stories260K", stories, "text", eps=STORIES_EPS),
]
sys.exit(0 if all(results) else 1)
