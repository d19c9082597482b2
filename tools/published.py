#!/usr/bin/env python3
"""published.py LOCKSTEP [--write] - the tables of docs/published.md: memory and throughput that others published,
beside what `lockstep plan` says of the same configuration. It compares them with the page, and with --write puts
them there. A row: words, settings, published tokens a second and GPU, published GiB (None: not published)."""

import json
import os
import subprocess
import sys
import tempfile

BASE = """
model: {type: llama, vocab_size: 128256, layers: 32, heads: 32, kv_heads: 8, hidden_size: 4096, mlp_size: 14336}
data: {type: text, train_text: x.txt, tokenizer: bytes, seq_length: 8192}
train: {global_batch: 16, micro_batch: 2}
optimizer: {type: adamw}
precision: {param: bf16}
parallel: {units: "class:LlamaDecoderLayer"}
"""
SIZES = {  # layers, heads, heads of keys, hidden, MLP, vocabulary
    "llama3-8B": (32, 32, 8, 4096, 14336, 128256),
    "llama3-70B": (80, 64, 8, 8192, 28672, 128256),
    "llama3-405B": (126, 128, 8, 16384, 53248, 128256),
    "llama2-7B": (32, 32, 32, 4096, 11008, 32000),
    "llama2-13B": (40, 40, 40, 5120, 13824, 32000),
    "llama-34B": (48, 64, 8, 8192, 22016, 32000),
    "llama2-70B": (80, 64, 8, 8192, 28672, 32000),
}
FULL = "parallel.recompute=units"
SELECTIVE = "parallel.recompute=[class:LlamaDecoderLayer, save:linear/2, save:attention]"
NONE = "parallel.recompute=none"
KEPT = "parallel.reshard_after_forward=false"  # as torchtitan does beside PP


def mesh(text):
    return f"parallel.mesh={{{text}}}"


# words, size, machine, GPUs, tokens of a sequence, micro-batch, batch, further settings, published tokens/s, GiB
TORCHTITAN = [
    ("8B, FSDP 8, selective AC", "llama3-8B", 8, 8192, 2, 16, [SELECTIVE], 5762, 82.4),
    ("8B, FSDP 128, selective AC", "llama3-8B", 128, 8192, 2, 256, [SELECTIVE], 5605, 67.0),
    ("8B, FSDP 8, full AC, fp8, compile", "llama3-8B", 8, 32768, 1, 8, [FULL], 3890, 83.9),
    ("8B, FSDP 4 x CP 2, full AC, fp8, compile", "llama3-8B", 8, 65536, 1, 4,
     [FULL, mesh("dp: 4, cp: 2")], 2540, 84.2),
    ("8B, FSDP 2 x CP 4, full AC, fp8, compile", "llama3-8B", 8, 131072, 1, 2,
     [FULL, mesh("dp: 2, cp: 4")], 1071, 84.0),
    ("8B, CP 8, full AC, fp8, compile", "llama3-8B", 8, 262144, 1, 1,
     [FULL, mesh("dp: 1, cp: 8")], 548, 84.5),
    ("70B, FSDP 32 x TP 8, full AC, fp8, compile", "llama3-70B", 256, 8192, 16, 512,
     [FULL, mesh("dp: 32, tp: 8"), "parallel.sequence=true"], 829, 71.9),
    ("405B, FSDP 8 x TP 8 x PP 8, 1F1B, full AC, fp8, compile", "llama3-405B", 512, 8192, 4, 256,
     [FULL, mesh("pp: 8, dp: 8, tp: 8"), "parallel.sequence=true", KEPT], 100, 82.5),
]  # fmt: skip
FSDP = [
    ("7B, HSDP 16 x 8, no AC", "llama2-7B", 128, 4096, 2, 256,
     [NONE, mesh("dp: 16, shard: 8"), "parallel.data=hybrid"], 3760, None),
    ("13B, HSDP 16 x 8, no AC", "llama2-13B", 128, 4096, 1, 128,
     [NONE, mesh("dp: 16, shard: 8"), "parallel.data=hybrid"], 1700, None),
    ("34B, FSDP 128, full AC", "llama-34B", 128, 4096, 8, 1024, [FULL], 772, None),
    ("70B, FSDP 128, full AC", "llama2-70B", 128, 4096, 6, 768, [FULL], 380, None),
]  # fmt: skip
MEGATRON = [
    ("8B, FSDP 8, 16 micro-batches, fp8", "llama3-8B", 8, 8192, 1, 128, [NONE], 14451, None),
]
TABLES = [("torchtitan", "h100-96gb", TORCHTITAN), ("fsdp", "a100", FSDP), ("megatron", "h100", MEGATRON)]
MODEL_KEYS = ("layers", "heads", "kv_heads", "hidden_size", "mlp_size", "vocab_size")


def planned(lockstep, folder, machine, row):
    _, size, gpus, tokens, micro, batch, settings, _, _ = row
    sets = [f"model.{key}={value}" for key, value in zip(MODEL_KEYS, SIZES[size])]
    sets += [f"data.seq_length={tokens}", f"train.micro_batch={micro}", f"train.global_batch={batch}"]
    sets += ["parallel.gather=copy"] + settings
    command = [lockstep, "plan", "step.yaml", "--json", "--machine", machine, "--workers", str(gpus)]
    for text in sets:
        command += ["--set", text]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"published.py: {row[0]}: {done.stderr}")
    plan = json.loads(done.stdout)
    memory = plan["rank"]["memory"]
    if any(stage["memory"] > memory["total"] for stage in plan.get("stages", [])):
        sys.exit(f"published.py: {row[0]}: rank 0 does not need the most memory, which is what others publish")
    return batch * tokens / plan["rank"]["seconds"] / gpus, memory["of_it_device"] / 2**30


def table(lockstep, folder, machine, rows):
    lines = [
        "| configuration | GPUs | micro-batch | their tokens/s a GPU | `plan` | their GiB a GPU | `plan` |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        words, _, gpus, tokens, micro, _, _, rate, memory = row
        ours, bytes_ = planned(lockstep, folder, machine, row)
        theirs = f"{memory:.1f}" if memory else "not said"
        lines.append(
            f"| {words} | {gpus} | {micro} x {tokens} | {rate:,} | {ours:,.0f} | {theirs} | {bytes_:.1f} |"
        )
    return "\n".join(lines) + "\n"


def main():
    lockstep = os.path.abspath(sys.argv[1])
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "published.md")
    with open(page, encoding="utf-8") as f:
        before = text = f.read()
    with tempfile.TemporaryDirectory(prefix="lockstep-published-") as folder:
        with open(os.path.join(folder, "step.yaml"), "w", encoding="utf-8") as f:
            f.write(BASE)
        with open(os.path.join(folder, "x.txt"), "w", encoding="utf-8") as f:
            f.write("x" * 1000000)
        for name, machine, rows in TABLES:
            begin, end = f"<!-- table {name} -->\n", f"<!-- end {name} -->\n"
            at, to = text.index(begin) + len(begin), text.index(end)
            text = text[:at] + table(lockstep, folder, machine, rows) + text[to:]
    if "--write" in sys.argv:
        with open(page, "w", encoding="utf-8") as f:
            f.write(text)
    elif text != before:
        for old, new in zip(before.splitlines(), text.splitlines()):
            if old != new:
                print(f"docs/published.md: {old}\n  plan says now:    {new}")
        sys.exit("the tables are not those of `plan`: tools/published.py LOCKSTEP --write")


main()
