#!/usr/bin/env python3
"""PyTorch's training step of a model in one of its modes: what bench/run.py compares Lockstep with.

    python bench/peer.py vit|resnet18|resnet50|vit_b_16|convnext_tiny|qwen2.5-0.5b|t5-base [--mode eager]
    [--threads 1] [--batch 64] [--size 28]
    python bench/peer.py qwen2.5-0.5b|t5-base --save FOLDER     # only that: the model as a folder of Hugging
    Face's

Answers every line "STEPS" of stdin with a line of JSON: seconds of each step, their median, and this
process's peak memory. Modes, which may be joined by `+`:
eager; compiled (torch.compile); channels_last (of pictures); autocast (bf16 where autocast takes it, weights
f32); pure (weights, gradients and moments bf16); lora (of language models: PEFT's adapters of rank 16 in f32 on all
linear layers, of weights in bf16).
Optimizers are PyTorch's fused ones. Weights are random: no step's time depends on them."""

import argparse
import contextlib
import json
import os
import resource
import statistics
import sys
import time

import torch
import torch.nn.functional as F

TOKENS, SOURCE, TARGET = 512, 512, 150
PICTURES = ("vit", "resnet18", "resnet50", "vit_b_16", "convnext_tiny")


def pictures(options, modes):
    sys.path.insert(
        0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "golden")
    )  # (which has a tokenizers.py, as transformers has)
    from common import normalize
    from convnext import ConvNeXt
    from resnet import ResNet
    from vit import VisionTransformer

    channels = 3 if options.size >= 100 else 1
    model = {
        "vit": VisionTransformer,
        "resnet18": lambda: ResNet(18, channels),
        "resnet50": lambda: ResNet(50, channels, 1000),
        "vit_b_16": lambda: VisionTransformer(options.size, 16, channels, 12, 12, 768, 3072, 1000),
        "convnext_tiny": lambda: ConvNeXt(in_channels=channels, stochastic_depth=0),
    }[options.model]()
    images = torch.randint(0, 256, (options.batch, channels, options.size, options.size), dtype=torch.uint8)
    labels = torch.randint(0, 10, (options.batch,))
    layout = torch.channels_last if "channels_last" in modes else torch.contiguous_format
    dtype = torch.bfloat16 if "pure" in modes else torch.float32

    def loss(net):
        return F.cross_entropy(
            net(normalize(images, torch.float32).to(dtype=dtype, memory_format=layout)).float(), labels
        )

    return model.to(memory_format=layout), loss, torch.optim.Adam


def language(options):
    from transformers import Qwen2Config, Qwen2ForCausalLM, T5Config, T5ForConditionalGeneration

    if options.model == "t5-base":
        model = T5ForConditionalGeneration(
            T5Config(
                vocab_size=32128,
                d_model=768,
                d_kv=64,
                d_ff=3072,
                num_layers=12,
                num_heads=12,
                dropout_rate=0.0,
                decoder_start_token_id=0,
                pad_token_id=0,
            )
        )
        source, target = torch.randint(3, 250, (options.batch, SOURCE)), torch.randint(
            3, 250, (options.batch, TARGET)
        )
        words = {"input_ids": source, "labels": target}
    else:
        model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=151936,
                hidden_size=896,
                intermediate_size=4864,
                num_hidden_layers=24,
                num_attention_heads=14,
                num_key_value_heads=2,
                rope_theta=1e6,
                tie_word_embeddings=True,
                max_position_embeddings=2048,
            )
        )
        ids = torch.randint(3, 250, (options.batch, TOKENS))
        words = {"input_ids": ids, "labels": ids}
    return model.train(), lambda net: net(**words, use_cache=False).loss, torch.optim.AdamW


def adapted(model):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    for p in model.parameters():
        if p.requires_grad:
            p.data = p.data.float()
    return model


def make_step(options):
    modes = options.mode.split("+")
    unknown = set(modes) - {"eager", "compiled", "channels_last", "autocast", "pure", "lora"}
    if unknown:
        sys.exit(f"bench/peer.py: no mode {', '.join(sorted(unknown))}")
    model, loss_of, optimizer_class = (
        pictures(options, modes) if options.model in PICTURES else language(options)
    )
    if "pure" in modes or "lora" in modes:
        model = model.to(torch.bfloat16)
    if "lora" in modes:
        model = adapted(model)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer_class(trained, lr=1e-5, fused=True)
    net = torch.compile(model) if "compiled" in modes else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16) if "autocast" in modes else contextlib.nullcontext():
            loss = loss_of(net)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=(*PICTURES, "qwen2.5-0.5b", "t5-base"))
    parser.add_argument("--mode", default="eager")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=28)
    parser.add_argument("--save", metavar="FOLDER")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.save:
        language(options)[0].save_pretrained(options.save)
        return
    step = make_step(options)
    for _ in range(2):
        step()
    print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        print(
            json.dumps(
                {
                    "seconds": seconds,
                    "median": statistics.median(seconds),
                    "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
