#!/usr/bin/env python3
"""Tutorial 3's training step, PyTorch (tensor parallel x FSDP2 over gloo, transformers' Qwen2) against `lockstep train`, in turns; every rank has one thread,
every data rank one row of 512 tokens.

    python bench/compare_language.py BUILD_DIR [--rounds 5] [--steps 4] [--layers 6] [--hidden 512] [--mlp 1536] [--vocab 32000] [--only f32.1 ...]

A way is TYPES.RANKS: f32.1, bf16.1 (in one process), f32.4, bf16.4 (dp 2 x tp 2). Each round asks PyTorch's server for some steps and lets `lockstep train` make
as many after two that are not counted; a figure is the median over rounds of each round's median, a ratio the median over rounds of the two programs' ratios."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from compare import HERE, Server

WAYS = {"f32.1": ("f32", 1, 1), "bf16.1": ("bf16", 1, 1), "f32.4": ("f32", 2, 2), "bf16.4": ("bf16", 2, 2)}


def make_folder(folder, o):
    sys.path.insert(0, os.path.join(HERE, "..", "tools", "golden"))
    import language  # before transformers: it keeps the library `tokenizers` in sight

    config = language.Qwen2Config(vocab_size=o.vocab, hidden_size=o.hidden, intermediate_size=o.mlp, num_hidden_layers=o.layers, num_attention_heads=o.hidden // 64,
                                  num_key_value_heads=2, rope_theta=1e6, tie_word_embeddings=True)
    model = language.Qwen2ForCausalLM(config)
    model.save_pretrained(folder)
    with open(os.path.join(folder, "text.txt"), "w", encoding="ascii") as f:
        for row in range(256):
            f.write("".join(chr(97 + (7 * row + 11 * i + i * i) % 26) for i in range(600)) + "\n")
    return sum(p.numel() for p in model.parameters())


def ours(program, folder, name, way, steps):
    """`lockstep train` from exec to the end; its steps but the first two."""
    types, dp, tp = WAYS[way]
    sets = [f"run.storage={folder}/runs", f"run.name={name}", f"train.steps={steps + 2}", f"precision.param={types}", f"precision.reduce={types}"]
    recipe = os.path.join(folder, "recipe.yaml")
    with open(recipe, "w", encoding="utf-8") as f:
        f.write(f"model: {{type: qwen2, init: {folder}}}\n"
                f"data: {{type: text, train_text: {folder}/text.txt, tokenizer: bytes, documents: line, pack: false, seq_length: 512, eval_text: {folder}/text.txt}}\n"
                f"train: {{global_batch: {dp}, micro_batch: 1, loss_mean: micro_batch}}\nthreads: 1\neval: {{every_epochs: -1}}\ncheckpoint: {{every_epochs: 0}}\n"
                f"optimizer: {{type: adamw, lr: 1e-5, weight_decay: 0.01}}\nparallel: {{mesh: {{dp: auto, tp: {tp}}}, units: \"class:Qwen2DecoderLayer\"}}\n")
    command = [program, "train", recipe, "--workers", str(dp * tp)] + [word for s in sets for word in ("--set", s)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    run = os.path.join(folder, "runs", name)
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as f:
        seconds = [row["seconds"] for row in map(json.loads, f) if row["kind"] == "step"][2:]
    with open(os.path.join(run, "result.json"), encoding="utf-8") as f:
        return {"median": statistics.median(seconds), "peak_rss_mb": json.load(f)["peak_rss"] / 2**20}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--mlp", type=int, default=1536)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--only", nargs="*", choices=WAYS, default=list(WAYS))
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{make_folder(folder, o):,} parameters; seconds a step, peak memory of rank 0; PyTorch / Lockstep")
        for way in o.only:
            types, dp, tp = WAYS[way]
            server = Server(sys.executable, os.path.join(HERE, "torch_language.py"), folder, "--dp", str(dp), "--tp", str(tp), "--types", types)
            rows = [(server.ask(o.steps), ours(os.path.join(o.build, "lockstep"), folder, f"{way}-{k}", way, o.steps)) for k in range(o.rounds)]
            server.process.stdin.close()
            server.process.wait()
            middle = [statistics.median(pair[side]["median"] for pair in rows) for side in (0, 1)]
            ratios = [a["median"] / b["median"] for a, b in rows]
            rss = [rows[-1][side]["peak_rss_mb"] for side in (0, 1)]
            print(f"{way:8} PyTorch {middle[0]:7.3f} s {rss[0]:6.0f} MB   Lockstep {middle[1]:7.3f} s {rss[1]:6.0f} MB   ratio {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f} to {max(ratios):.2f}), memory {rss[0] / rss[1]:.1f}", flush=True)


if __name__ == "__main__":
    main()
