#!/usr/bin/env python3
"""published.py LOCKSTEP [--write] - the tables of docs/published.md: memory and throughput that others published,
beside what `lockstep plan` says of the same configuration. It compares them with the page, and with --write puts
them there. A row: words, settings, published tokens a second and GPU, published GiB (None: not published). Rows of
SLOW take longer to plan: only --write does, and otherwise they stay as the page has them."""

import json
import os
import subprocess
import sys
import tempfile

BASE = """
data: {type: text, train_text: x.txt, tokenizer: bytes, seq_length: 8192}
train: {global_batch: 16, micro_batch: 2}
optimizer: {type: adamw}
precision: {param: bf16}
parallel: {units: "class:LlamaDecoderLayer"}
"""


def model(**keys):
    return [f"model.{key}={value}" for key, value in keys.items()]


def llama(layers, heads, kv_heads, hidden, mlp, vocabulary):
    return model(type="llama", layers=layers, heads=heads, kv_heads=kv_heads, hidden_size=hidden, mlp_size=mlp,
                 vocab_size=vocabulary)  # fmt: skip


def gpt(layers, heads, hidden):
    return model(type="gpt2", layers=layers, heads=heads, hidden_size=hidden, mlp_size=4 * hidden, vocab_size=51200,
                 positions=2048, tied="true")  # fmt: skip


MODELS = {
    "llama3-8B": llama(32, 32, 8, 4096, 14336, 128256),
    "llama3-70B": llama(80, 64, 8, 8192, 28672, 128256),
    "llama3-405B": llama(126, 128, 8, 16384, 53248, 128256),
    "llama2-7B": llama(32, 32, 32, 4096, 11008, 32000),
    "llama2-13B": llama(40, 40, 40, 5120, 13824, 32000),
    "llama-34B": llama(48, 64, 8, 8192, 22016, 32000),
    "llama2-70B": llama(80, 64, 8, 8192, 28672, 32000),
}
FULL = "parallel.recompute=units"
SELECTIVE = "parallel.recompute=[class:LlamaDecoderLayer, save:linear/2, save:attention]"
NONE = "parallel.recompute=none"
KEPT = "parallel.reshard_after_forward=false"  # as torchtitan does beside PP
REDUCED = "precision.reduce=bf16"  # the policy bfSixteen of fms-fsdp


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
    ("the same, interleaved 1F1B", "llama3-405B", 512, 8192, 4, 256,
     [FULL, mesh("pp: 8, dp: 8, tp: 8"), "parallel.sequence=true", KEPT, "parallel.schedule=interleaved",
      f"parallel.stages={[7] + 14 * [8] + [7]}"], 128, 72.7),
]  # fmt: skip
FSDP = [
    ("7B, HSDP 16 x 8, no AC", "llama2-7B", 128, 4096, 2, 256,
     [NONE, mesh("dp: 16, shard: 8"), "parallel.data=hybrid", REDUCED], 3760, None),
    ("13B, HSDP 16 x 8, no AC", "llama2-13B", 128, 4096, 1, 128,
     [NONE, mesh("dp: 16, shard: 8"), "parallel.data=hybrid", REDUCED], 1700, None),
    ("34B, FSDP 128, full AC", "llama-34B", 128, 4096, 8, 1024, [FULL, REDUCED], 772, None),
    ("70B, FSDP 128, full AC", "llama2-70B", 128, 4096, 6, 768, [FULL, REDUCED], 380, None),
]  # fmt: skip
MEGATRON = [
    ("8B, FSDP 8, 16 micro-batches, fp8", "llama3-8B", 8, 8192, 1, 128, [NONE], 14451, None),
]
SLOW = ("145B", "310B")


def megatron_lm(name, layers, heads, hidden, pipeline, data, micro, batch, chunks, teraflops):
    """A row of their paper. Their FLOP/s are those of all products, with the forward pass computed twice."""
    MODELS[name] = gpt(layers, heads, hidden)
    flops = 96 * layers * hidden**2 * (1 + 2048 / (6 * hidden) + 51200 / (16 * layers * hidden))  # of a token
    settings = [FULL, mesh(f"pp: {pipeline}, dp: {data}, tp: 8"), "parallel.data=ddp", "train.accumulate=running",
                "parallel.units=class:GPT2Block"]  # fmt: skip
    if chunks > 1:
        settings += ["parallel.schedule=interleaved", f"parallel.chunks={chunks}"]
    words = f"{name}, TP 8 x PP {pipeline} x DP {data}" + (f", {chunks} stages a rank" if chunks > 1 else "")
    return (words, name, 8 * pipeline * data, 2048, micro, batch, settings, round(1e12 * teraflops / flops), None)


MEGATRON_LM = [
    megatron_lm("76B", 60, 80, 10240, 4, 32, 2, 1792, 3, 140),
    megatron_lm("145B", 80, 96, 12288, 8, 24, 2, 2304, 2, 148),
    megatron_lm("310B", 96, 128, 16384, 16, 15, 1, 2160, 2, 155),
]
TABLES = [("torchtitan", ["h100-96gb"], TORCHTITAN), ("fsdp", ["a100", "--network", "5us,50GB/s"], FSDP),
          ("megatron", ["h100"], MEGATRON), ("megatron-lm", ["a100"], MEGATRON_LM)]  # fmt: skip


def planned(lockstep, folder, machine, row):
    _, name, gpus, tokens, micro, batch, settings, _, _ = row
    sets = MODELS[name] + [f"data.seq_length={tokens}", f"train.micro_batch={micro}", f"train.global_batch={batch}"]
    sets += settings if "parallel.data=ddp" in settings else ["parallel.gather=copy"] + settings
    command = [lockstep, "plan", "step.yaml", "--json", "--machine", *machine, "--workers", str(gpus)]
    for text in sets:
        command += ["--set", text]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"published.py: {row[0]}: {done.stderr}")
    plan = json.loads(done.stdout)
    ranks = plan.get("stages") or [plan["rank"]["memory"]]
    memory = max(rank["of_it_device"] for rank in ranks)  # which is what others publish
    return batch * tokens / plan["rank"]["seconds"] / gpus, memory / 2**30


def table(lockstep, folder, machine, rows, page):
    """`page`: the lines of its table, of which slow rows are taken; None: all are planned."""
    lines = [
        "| configuration | GPUs | micro-batch | their tokens/s a GPU | `plan` | their GiB a GPU | `plan` |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        words, name, gpus, tokens, micro, _, _, rate, memory = row
        kept = [line for line in page or [] if line.startswith(f"| {words} | {gpus} | {micro} x {tokens} | {rate:,} |")]
        if name in SLOW and page is not None:
            lines += kept or [f"| {words} | is missing |"]
            continue
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
            kept = None if "--write" in sys.argv else text[at:to].splitlines()
            text = text[:at] + table(lockstep, folder, machine, rows, kept) + text[to:]
    if "--write" in sys.argv:
        with open(page, "w", encoding="utf-8") as f:
            f.write(text)
    elif text != before:
        for old, new in zip(before.splitlines(), text.splitlines()):
            if old != new:
                print(f"docs/published.md: {old}\n  plan says now:    {new}")
        sys.exit("the tables are not those of `plan`: tools/published.py LOCKSTEP --write")


main()
