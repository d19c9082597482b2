"""What transformers' generate makes of small T5s with random weights: tests/golden/t5_relu and t5_gated, each
a folder as save_pretrained writes it, and in
generate.json 20 prompts with the ids of several ways to choose.

    python tools/golden/generate.py

The same of the small Qwen2 of tests/golden/language, with id 10 for an end token.

t5_relu: one table, scaled output. t5_gated: T5 v1.1 with a head of its own, as transformers 5 saves it again:
tie_word_embeddings true, scale_decoder_outputs
false, and an lm_head.weight that is not shared.weight.

And of small/NAME, a decoder of each other family with a window of 5, greedily. `python tools/golden/generate.py
small` makes these alone."""

import json
import os
import sys

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [
    p for p in sys.path if os.path.abspath(p) != HERE
]  # the library `tokenizers` before the script of that name
from transformers import AutoConfig, AutoModelForCausalLM, T5Config, T5ForConditionalGeneration, set_seed  # noqa: E402

OUT = os.path.join(HERE, "..", "..", "tests", "golden")
SHARED = {
    "vocab_size": 67,
    "d_model": 24,
    "d_ff": 40,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,
    "dropout_rate": 0.0,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
MODELS = {
    "t5_relu": {"d_kv": 6, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4},
    "t5_gated": {
        "d_kv": 10,
        "num_layers": 2,
        "num_heads": 3,
        "feed_forward_proj": "gated-gelu",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
    },
}
DECODER = {
    "vocab_size": 67,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": None,
    "max_position_embeddings": 160,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 12}
SMALL = {
    "llama": {**DECODER, "rope_parameters": LLAMA3, "head_dim": 12},
    "qwen3": {**DECODER, "head_dim": 10, "tie_word_embeddings": True},
    "mistral": {**DECODER, "sliding_window": 5},
    "gemma3_text": {
        **DECODER,
        "head_dim": 10,
        "sliding_window": 5,
        "query_pre_attn_scalar": 9,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "mixtral": {**DECODER, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5},
    "qwen2_moe": {**DECODER, **EXPERTS, "shared_expert_intermediate_size": 12, "decoder_sparse_step": 2},
    "qwen3_moe": {**DECODER, **EXPERTS, "head_dim": 10, "norm_topk_prob": True},
    "olmoe": {**DECODER, "num_experts": 6, "num_experts_per_tok": 3, "clip_qkv": 3.0},
    "gpt2": {
        "vocab_size": 67,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 160,
        "bos_token_id": None,
        "eos_token_id": 1,
    },
}
NEW = 24
WAYS = {
    "greedy": {},
    "greedy.ngram": {"no_repeat_ngram_size": 2, "min_new_tokens": 5},
    "beams": {"num_beams": 4, "length_penalty": 1.0},
    "beams.long": {
        "num_beams": 4,
        "length_penalty": 2.0,
        "early_stopping": True,
        "no_repeat_ngram_size": 3,
        "min_new_tokens": 6,
    },
    "beams.short": {"num_beams": 4, "length_penalty": -0.5},
    "beams.never": {"num_beams": 3, "length_penalty": 2.0, "early_stopping": "never"},
}


def prompts(vocabulary, step, end):
    """20 prompts of 1, 1 + step, ... tokens, and behind them `end`."""
    generator = torch.Generator().manual_seed(5)
    return [
        torch.randint(2, vocabulary, (1 + step * i,), generator=generator).tolist() + end for i in range(20)
    ]


def make(name):
    set_seed(11)
    model = T5ForConditionalGeneration(T5Config(**SHARED, **MODELS[name])).eval()
    with torch.no_grad():
        for (
            key,
            p,
        ) in model.named_parameters():  # so that what is said depends on the source, and ends sometimes
            if "relative_attention_bias" in key:
                p.mul_(2)
            elif p.dim() == 2 and "shared" not in key:
                p.mul_(1.6 if name == "t5_gated" else 4)
        if name == "t5_gated":
            model.lm_head.weight = nn.Parameter(torch.randn(67, 24) * 0.4)
            model.lm_head.weight[1] *= 1.3
        else:
            model.shared.weight.mul_(0.3)
            model.shared.weight[1] *= 2
    model.save_pretrained(os.path.join(OUT, name))
    os.remove(os.path.join(OUT, name, "generation_config.json"))
    return T5ForConditionalGeneration.from_pretrained(os.path.join(OUT, name)).eval()


def make_small(name):
    """Weights in the types and with the names that save_pretrained gives them, large enough that texts
    differ."""
    set_seed(11)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **SMALL[name])).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.3 + (p.dim() == 1 and name not in ("gemma3_text", "gpt2")))
    folder = os.path.join(OUT, "small", name)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    return AutoModelForCausalLM.from_pretrained(folder).eval()


def text_of(ids, end):
    """Without the end token and what comes behind it."""
    return ids[: ids.index(end)] if end in ids else ids


def texts(model, prompts, end, skip, ways=WAYS, **more):
    """skip(prompt): tokens of what generate returns that are not the text."""
    made = {"prompts": prompts}
    for way, how in ways.items():
        made[way] = []
        for prompt in prompts:  # without a cache: T5's has as many layers as the encoder
            out = model.generate(
                torch.tensor([prompt]), max_new_tokens=NEW, do_sample=False, use_cache=False, **how, **more
            )
            made[way].append(text_of(out[0].tolist()[skip(prompt) :], end))
        distinct = {tuple(t) for t in made[way]}
        print(way, len(distinct), "texts, lengths", sorted(len(t) for t in made[way]))
    return made


if __name__ == "__main__":
    path = os.path.join(OUT, "generate.json")
    if sys.argv[1:] == ["small"]:
        with open(path, encoding="utf-8") as f:
            golden = json.load(f)
    else:
        golden = {name: texts(make(name), prompts(67, 2, [1]), 1, lambda prompt: 1) for name in MODELS}
        qwen2 = AutoModelForCausalLM.from_pretrained(os.path.join(OUT, "language")).eval()
        golden["language"] = texts(qwen2, prompts(257, 5, []), 10, len, eos_token_id=10, pad_token_id=0)
    for name in SMALL:
        golden["small/" + name] = texts(
            make_small(name), prompts(67, 2, []), 1, len, {"greedy": {}}, eos_token_id=1, pad_token_id=0
        )
    with open(path, "w", encoding="utf-8") as f:
        json.dump(golden, f, separators=(",", ":"))
        f.write("\n")
