"""Tutorial 3 in PyTorch: a causal language model of transformers on lines of text, tensor parallel x FSDP2
over real processes (gloo, one thread each), or
plainly in one. What the goldens of tests/golden/language and the rows `tp` of bench/run.py share.

    python tools/golden/language.py          # makes tests/golden/language again

A way is (ranks of dp, ranks of tp, types): f32; bf16: f32 weights under MixedPrecisionPolicy(bf16, reduce
bf16) and autocast; tutorial: as bf16, with the
weights and AdamW's moments in bf16 too, as the tutorial loads them."""

import contextlib
import os
import sys

import torch
import torch.distributed as dist

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [
    HERE
]  # the library `tokenizers` before the script of that name
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM  # noqa: E402

import ranks as several  # noqa: E402

FOLDER = os.path.join(HERE, "..", "..", "tests", "golden", "language")
STEPS, TOKENS, PADDING = 20, 32, 256
WAYS = {
    "f32": (1, 1, "f32"),
    "f32.tp": (1, 2, "f32"),
    "f32.dp_tp": (2, 2, "f32"),
    "bf16.dp_tp": (2, 2, "bf16"),
    "tutorial.dp_tp": (2, 2, "tutorial"),
}


def parallelize(model, dp, tp, types):
    """The tutorial's setup_model_with_tp, on gloo."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
    columns = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"]
    plan = {name: ColwiseParallel() for name in columns} | {
        "self_attn.o_proj": RowwiseParallel(),
        "mlp.down_proj": RowwiseParallel(),
    }
    for layer in model.model.layers:
        parallelize_module(layer, mesh["tp"], plan)
    if dp > 1:
        half = torch.bfloat16
        policy = (
            MixedPrecisionPolicy()
            if types == "f32"
            else MixedPrecisionPolicy(param_dtype=half, reduce_dtype=half)
        )
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh["dp"], mp_policy=policy)
        fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
    return model


def optimizer_of(model, lr):
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, foreach=False)


def step(model, optimizer, ids, mask, labels, types):
    """The tutorial's step; this rank's loss."""
    optimizer.zero_grad(set_to_none=True)
    with contextlib.nullcontext() if types == "f32" else torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss
    loss.backward()
    optimizer.step()
    return loss.detach()


def rows(text):
    """Lines as the tutorial's tokenize_fn and add_labels make them, a byte being a token."""
    lines = [line.encode()[:TOKENS] for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if len(line) > 1]
    ids = torch.full((len(lines), TOKENS), PADDING)
    for row, line in zip(ids, lines):
        row[: len(line)] = torch.tensor(list(line))
    mask = torch.arange(TOKENS) < torch.tensor([len(line) for line in lines])[:, None]
    return ids, mask.long(), ids.masked_fill(~mask, -100)


def train(way):
    """Losses of STEPS steps with a row for each of two data ranks, in order; AdamW 1e-3. In one process the
    two means are averaged here, as FSDP2
    averages gradients."""
    dp, tp, types = WAYS[way]
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(
        FOLDER, dtype=torch.bfloat16 if types == "tutorial" else torch.float32
    ).train()
    if dp * tp > 1:
        model = parallelize(model, dp, tp, types)
    optimizer, losses = optimizer_of(model, 1e-3), []
    with open(os.path.join(FOLDER, "text.txt"), encoding="utf-8") as f:
        batches = rows(f.read())
    for k in range(STEPS):
        if dp == 2:
            at = slice(2 * k + dist.get_rank() // tp, 2 * k + dist.get_rank() // tp + 1)
            loss = step(model, optimizer, *(t[at] for t in batches), types).double()
            dist.all_reduce(loss)
            losses.append(loss / (dp * tp))
            continue
        optimizer.zero_grad(set_to_none=True)
        loss = (
            sum(
                model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss
                for ids, mask, labels in ([t[i : i + 1] for t in batches] for i in (2 * k, 2 * k + 1))
            )
            / 2
        )
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().double())
    return torch.stack(losses)


def make_folder():
    torch.manual_seed(3)
    config = Qwen2Config(
        vocab_size=PADDING + 1,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        tie_word_embeddings=True,
        initializer_range=0.1,
    )
    Qwen2ForCausalLM(config).save_pretrained(FOLDER)
    os.remove(os.path.join(FOLDER, "generation_config.json"))


if __name__ == "__main__":
    make_folder()
    columns = {
        way: (several.run(dp * tp, train, way) if dp * tp > 1 else train(way))
        for way, (dp, tp, _) in WAYS.items()
    }
    with open(os.path.join(FOLDER, "losses.txt"), "w", encoding="utf-8") as f:
        f.write("# step " + " ".join(columns) + f"   PyTorch {torch.__version__}\n")
        for k in range(STEPS):
            f.write(
                " ".join([str(k + 1)] + [f"{losses[k].item():.9f}" for losses in columns.values()]) + "\n"
            )
