#!/usr/bin/env python3
"""Times transformers: a prompt read into its cache of keys and values, and tokens behind it. The peer of
bench_generate in bench/compare_generate.py.

python bench/torch_generate.py FOLDER [--threads 1] [--dtype f32|bf16] [--prompt 512] [--tokens 16] [--repeat
3] [--serve]
"""

import argparse
import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging


def measure(o, model, ids):
    seconds = []
    with torch.inference_mode():
        for _ in range(o.repeat):
            start = time.perf_counter()
            out = model(ids, use_cache=True, logits_to_keep=1)
            seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        for _ in range(o.tokens):
            out = model(out.logits[:, -1:].argmax(-1), past_key_values=out.past_key_values, use_cache=True)
        token = (time.perf_counter() - start) / o.tokens if o.tokens else 0
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
    logging.set_verbosity_error()
    torch.set_num_threads(o.threads)
    model = AutoModelForCausalLM.from_pretrained(
        o.folder, dtype=torch.float32 if o.dtype == "f32" else torch.bfloat16
    ).eval()
    ids = torch.tensor([[(i * 2654435761 % 2**32 >> 8) % model.config.vocab_size for i in range(o.prompt)]])
    if not o.serve:
        return measure(o, model, ids)
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        measure(o, model, ids)
    return None


if __name__ == "__main__":
    main()
