"""The rows of the table of measurements: how Lockstep and PyTorch's modes are started for each."""

import json
import os
import sys
import time

from server import HERE, Runs, Server, Train

F32_PICTURES, BF16 = ("eager", "compiled"), ("autocast", "compiled+autocast", "pure")
LANGUAGE = {"f32": ("eager", "compiled"), "bf16": ("autocast", "pure", "compiled+pure")}
TEXT = """model: {{type: qwen2, vocab_size: 151936, layers: 24, heads: 14, kv_heads: 2, hidden_size: 896,
        mlp_size: 4864, norm_eps: 1e-6, rope_theta: 1e6, tied: true}}
data: {{type: text, train_text: {folder}/text.txt, eval_text: {folder}/text.txt, tokenizer: bytes,
       documents: file, seq_length: 512}}
train: {{global_batch: 1}}
optimizer: {{type: adamw, lr: 1e-5}}
precision: {{param: {dtype}}}
threads: {threads}
"""
ADAPTERS = TEXT.replace("train: {{global_batch: 1}}", "train: {{global_batch: 1, lora: {{rank: 16}}}}")
NF4 = ADAPTERS.replace("tied: true}}", "tied: true, base: nf4}}")
PAIRS = """model: {{type: t5, vocab_size: 32128, layers: 12, heads: 12, hidden_size: 768,
        mlp_size: 3072, tied: true}}
data: {{type: pairs, train_text: {folder}/pairs.jsonl, eval_text: {folder}/pairs.jsonl, tokenizer: bytes,
       source_length: 512, target_length: 150}}
train: {{global_batch: 2}}
optimizer: {{type: adamw, lr: 1e-5}}
precision: {{param: {dtype}}}
threads: {threads}
"""
FOUR = """model: {{type: qwen2, vocab_size: 32000, layers: 6, heads: 8, kv_heads: 2, hidden_size: 512,
        mlp_size: 1536, rope_theta: 1e6, tied: true}}
data: {{type: text, train_text: {folder}/text.txt, eval_text: {folder}/text.txt, tokenizer: bytes,
       documents: file, seq_length: 512}}
train: {{global_batch: 2, micro_batch: 1, loss_mean: micro_batch}}
optimizer: {{type: adamw, lr: 1e-5}}
parallel: {{mesh: {{dp: auto, tp: 2}}, units: "class:Qwen2DecoderLayer"}}
precision: {{param: {dtype}, reduce: {dtype}}}
threads: {threads}
"""


def rows(build):
    """name: table, text, threads, type, how to start ours, PyTorch's modes and their commands, rounds, steps
    of a round."""
    python, peer, ranks = sys.executable, os.path.join(HERE, "peer.py"), os.path.join(HERE, "torch_ranks.py")
    step, several = os.path.join(build, "bench", "bench_vit_step"), os.path.join(
        build, "bench", "bench_ranks"
    )
    program = os.path.join(build, "lockstep")

    def row(name, text, threads, dtype, ours, modes, rounds, steps):
        return {
            "name": name,
            "text": text,
            "threads": threads,
            "dtype": dtype,
            "ours": ours,
            "modes": modes,
            "rounds": rounds,
            "steps": steps,
        }

    for dtype in ("f32", "bf16"):
        for threads in (1, 2):
            modes = {
                m: lambda f, m=m, t=threads: Server(python, peer, "vit", "--mode", m, "--threads", str(t))
                for m in (F32_PICTURES if dtype == "f32" else BF16)
            }
            yield row(
                f"vit {dtype} {threads}",
                f"ViT of tutorial 1, 64 images, {dtype}",
                threads,
                dtype,
                lambda f, d=dtype, t=threads: Server(step, "--serve", "--dtype", d, "--threads", str(t)),
                modes,
                7,
                5,
            )
    for size, batch, rounds in ((28, 64, 5), (224, 8, 3)):
        modes = {
            m: lambda f, m=m, s=size, b=batch: Server(
                python, peer, "resnet18", "--mode", m, "--size", str(s), "--batch", str(b)
            )
            for m in ("eager", "channels_last", "compiled", "compiled+channels_last")
        }
        yield row(
            f"resnet {size} f32 1",
            f"ResNet18, {batch} images of {size} x {size}{' x 3' if size > 99 else ''}, f32",
            1,
            "f32",
            lambda f, s=size, b=batch: Server(
                several, "--serve", "--model", "resnet18", "--ranks", "1", "--size", str(s), "--batch", str(b)
            ),
            modes,
            rounds,
            3,
        )
    for model, word, text in (
        ("resnet50", "resnet50", "ResNet50"),
        ("vit_b_16", "vit-b16", "ViT-B/16"),
        ("convnext_tiny", "convnext", "ConvNeXt-T"),
    ):
        for threads in (1, 2):
            words = ("--size", "224", "--batch", "8", "--threads", str(threads))
            modes = {
                m: lambda f, m=m, p=model, w=words: Server(python, peer, p, "--mode", m, *w)
                for m in ("eager", "channels_last", "compiled", "compiled+channels_last")
            }
            yield row(
                f"{word} 224 f32 {threads}",
                f"{text}, 8 images of 224 x 224 x 3, f32",
                threads,
                "f32",
                lambda f, p=model, w=words: Server(several, "--serve", "--model", p, "--ranks", "1", *w),
                modes,
                3,
                1,
            )
    for model, word, text, recipe in (
        ("t5-base", "t5", "T5-base, 2 x (512, 150) tokens", PAIRS),
        ("qwen2.5-0.5b", "qwen", "Qwen2.5-0.5B, 512 tokens", TEXT),
    ):
        for dtype in ("f32", "bf16"):
            for threads in (1, 2):
                batch = "2" if word == "t5" else "1"
                modes = {
                    m: lambda f, m=m, p=model, t=threads, b=batch: Server(
                        python, peer, p, "--mode", m, "--threads", str(t), "--batch", b
                    )
                    for m in LANGUAGE[dtype]
                }
                yield row(
                    f"{word} {dtype} {threads}",
                    f"{text}, {dtype}",
                    threads,
                    dtype,
                    lambda f, r=recipe, d=dtype, t=threads: Train(
                        program,
                        write(f, "recipe.yaml", r.format(folder=f, dtype=d, threads=t)),
                        f,
                        f"{d}-{t}-{time.time_ns()}",
                    ),
                    modes,
                    3,
                    1,
                )
    train = lambda f, name, recipe, t: Train(  # noqa: E731
        program,
        write(f, name, recipe.format(folder=f, dtype="bf16", threads=t)),
        f,
        f"{name}-{t}-{time.time_ns()}",
    )
    for threads in (1, 2):
        peft = lambda f, t=threads: Server(  # noqa: E731
            python, peer, "qwen2.5-0.5b", "--mode", "lora+autocast", "--threads", str(t), "--batch", "1"
        )
        whole = lambda f, t=threads: train(f, "whole.yaml", TEXT, t)  # noqa: E731
        bf16 = lambda f, t=threads: train(f, "bf16.yaml", ADAPTERS, t)  # noqa: E731
        for word, text, recipe, modes in (
            ("lora", "adapters of rank 16", ADAPTERS, {"PEFT": peft}),
            ("lora-step", "adapters of rank 16 beside a step of all weights", ADAPTERS, {"Lockstep, all weights": whole}),
            ("lora-nf4", "adapters of rank 16, NF4", NF4, {"Lockstep, adapters on bf16": bf16}),
        ):
            yield row(
                f"qwen {word} bf16 {threads}",
                f"Qwen2.5-0.5B, 512 tokens, {text}, bf16",
                threads,
                "bf16",
                lambda f, r=recipe, t=threads: train(f, "recipe.yaml", r, t),
                modes,
                3,
                1,
            )
    for name, text, ours, strategy in (
        ("fsdp", "FSDP", ["--gather", "copy"], "fsdp"),
        ("ddp", "DDP", ["--data", "ddp"], "ddp"),
        ("fsdp bf16", "FSDP, bf16", ["--gather", "copy", "--dtype", "bf16"], "fsdp_bf16"),
    ):
        modes = {"gloo": lambda f, s=strategy: Server(python, ranks, "--serve", "--strategy", s)}
        yield row(
            f"ranks {name}",
            f"ViT over two ranks, 64 images each, {text}",
            1,
            "bf16" if "bf16" in name else "f32",
            lambda f, o=ours: Server(several, "--serve", *o),
            modes,
            7,
            5,
        )
    modes = {"gloo": lambda f: Server(python, ranks, "--serve", "--model", "resnet18", "--strategy", "ddp")}
    yield row(
        "ranks resnet ddp",
        "ResNet18 over two ranks, 64 images of 28 x 28 each, DDP",
        1,
        "f32",
        lambda f: Server(several, "--serve", "--model", "resnet18", "--data", "ddp"),
        modes,
        5,
        3,
    )
    for dtype in ("f32", "bf16"):
        modes = {
            "gloo": lambda f, d=dtype: Server(
                python, os.path.join(HERE, "torch_language.py"), "--dp", "2", "--tp", "2", "--types", d
            )
        }
        yield row(
            f"tp {dtype}",
            f"Qwen2 of 34.5 million, tensor parallel x FSDP over four processes, {dtype}",
            1,
            dtype,
            lambda f, d=dtype: Runs(
                program,
                write(f, "recipe.yaml", FOUR.format(folder=f, dtype=d, threads=1)),
                f,
                f"tp-{d}",
                "--workers",
                "4",
            ),
            modes,
            3,
            4,
        )


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def corpora(folder):
    letters = "".join(chr(97 + (7 * i + i * i) % 26) for i in range(1 << 16))
    write(folder, "text.txt", letters)
    write(
        folder,
        "pairs.jsonl",
        "".join(
            json.dumps({"source": letters[k : k + 600], "target": letters[k + 600 : k + 800]}) + "\n"
            for k in range(0, 60000, 500)
        ),
    )
