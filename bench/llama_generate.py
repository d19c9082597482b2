#!/usr/bin/env python3
"""Times llama.cpp (package xllamacpp): a prompt read into its cache, and tokens behind it. A peer of
bench_generate in bench/run.py.

python bench/llama_generate.py FOLDER [--threads 1] [--dtype f32|bf16] [--prompt 512] [--tokens 16] [--repeat
3] [--serve]

FOLDER has a Qwen2 as transformers saves it. Its weights become a GGUF file in a temporary folder, with a
vocabulary of made-up words: prompts are ids. llama.cpp's own times are printed, which leave out HTTP."""

import argparse
import glob
import json
import os
import sys
import tempfile
import urllib.request

import gguf
import numpy as np
import torch
import xllamacpp
from safetensors import safe_open


def write(folder, dtype, path):
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    theta = c.get("rope_theta") or c["rope_parameters"]["rope_theta"]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, c["num_hidden_layers"])
    w = gguf.GGUFWriter(path, "qwen2")
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_freq_base(theta)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list([f"t{i}" for i in range(c["vocab_size"])])
    w.add_token_types([gguf.TokenType.NORMAL] * c["vocab_size"])
    w.add_token_merges(["t 0"])
    w.add_eos_token_id(c["vocab_size"] - 1)
    for file in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with safe_open(file, "pt") as f:
            for name in f.keys():
                as_gguf = names.get_name(name, try_suffixes=(".weight", ".bias"))
                t = f.get_tensor(name)
                if dtype == "f32" or t.ndim < 2:
                    w.add_tensor(as_gguf, t.float().numpy())
                else:
                    bits = t.bfloat16().contiguous().view(torch.int16).numpy().view(np.uint8)
                    w.add_tensor(as_gguf, bits, raw_dtype=gguf.GGMLQuantizationType.BF16)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return c["vocab_size"]


def serve(o, path):
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup = path, o.prompt + o.tokens + 8, 1, False
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = o.threads
    p.n_batch = p.n_ubatch = 512
    return xllamacpp.Server(p)


def measure(o, server, vocabulary):
    """The first token comes with the prompt."""
    ids = [(i * 2654435761 % 2**32 >> 8) % vocabulary for i in range(o.prompt)]
    seconds = []
    for k in range(o.repeat):
        n = o.tokens + 1 if k + 1 == o.repeat else 1
        body = {"prompt": ids, "n_predict": n, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        request = urllib.request.Request(
            server.listening_address + "/completion",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            times = json.load(answer)["timings"]
        seconds.append(times["prompt_ms"] / 1e3)
    token = times["predicted_ms"] / 1e3 / o.tokens if o.tokens else 0
    print(json.dumps({"prompt": seconds, "token": token}), flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--serve", action="store_true")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        vocabulary = write(o.folder, o.dtype, path)
        server = serve(o, path)
        if not o.serve:
            return measure(o, server, vocabulary)
        print(json.dumps({"ready": True}), flush=True)
        for _ in sys.stdin:
            measure(o, server, vocabulary)
    return None


if __name__ == "__main__":
    main()
