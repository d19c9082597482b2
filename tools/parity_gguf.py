#!/usr/bin/env python3
"""Models that `lockstep export` writes for llama.cpp and for transformers, run there. See `make parity`.

    LOCKSTEP_DATA=/data python tools/parity_gguf.py build/lockstep

llama.cpp is the package xllamacpp. What must hold:

- every type of file loads; in f32 llama.cpp generates the 60 greedy tokens of `lockstep predict`;
- each tokenizer (stories260K's, Qwen2.5's, GPT-2's, and small ones with the pre-tokenizers of Llama 3,
  Mistral Nemo and SmolLM, trained here) gives the same ids in lockstep, llama.cpp and transformers for 200 texts;
- an adapter beside its base generates the tokens of the merged model;
- blocks of Q8_0, Q4_0 and Q5_0 are those of the package gguf, and Q4_K and Q6_K lose as little as they may.

LOCKSTEP_DATA has stories260K, qwen2.5, gpt2, tinyshakespeare and llama.cpp-vocab. Exit status 1 if something
differs."""

import ctypes
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LOCKSTEP = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
DATA = os.environ.get("LOCKSTEP_DATA", "")
TYPES = "f32", "f16", "bf16", "q8_0", "q4_0", "q4_k_m"
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| "
    r"?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
failures = 0


def check(what, holds, more=""):
    global failures
    failures += not holds
    print(f"{'ok    ' if holds else 'DIFFERS'} {what} {more}", flush=True)


def lockstep(*args):
    p = subprocess.run([LOCKSTEP, *args], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"lockstep {' '.join(args)}: {p.stderr}")
    return p.stdout


# ---- folders


def stories(folder):
    """stories260K with a tokenizer.json, as transformers writes one of SentencePiece's BPE."""
    link(folder, "stories260K", "config.json", "model.safetensors")
    with open(f"{DATA}/stories260K/tok512.bin", "rb") as f:
        raw = f.read()
    tokens, at = [], 4
    for i in range(512):
        n = struct.unpack_from("<i", raw, at + 4)[0]
        text = raw[at + 8 : at + 8 + n].decode("utf8", "replace").replace(" ", "\u2581")
        tokens.append(
            "<0x%02X>" % (i - 3) if 3 <= i < 259 else ["<unk>", "<s>", "</s>"][i] if i < 3 else text
        )
        at += 8 + n
    ids = {t: i for i, t in enumerate(tokens)}
    cuts = [[(t[:k], t[k:]) for k in range(1, len(t))] for t in tokens[259:]]
    merges = [list(cut) for of in cuts for cut in of if cut[0] in ids and cut[1] in ids]
    space = {"String": " "}
    begin = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    write(
        f"{folder}/tokenizer.json",
        {
            "version": "1.0",
            "added_tokens": [
                dict(
                    id=i,
                    content=tokens[i],
                    single_word=False,
                    lstrip=False,
                    rstrip=False,
                    normalized=False,
                    special=True,
                )
                for i in range(3)
            ],
            "normalizer": {
                "type": "Sequence",
                "normalizers": [
                    {"type": "Prepend", "prepend": "\u2581"},
                    {"type": "Replace", "pattern": space, "content": "\u2581"},
                ],
            },
            "post_processor": {
                "type": "TemplateProcessing",
                "single": begin,
                "pair": begin + [{"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
            },
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                    {"type": "ByteFallback"},
                    {"type": "Fuse"},
                    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
                ],
            },
            "model": dict(
                type="BPE", unk_token="<unk>", fuse_unk=True, byte_fallback=True, vocab=ids, merges=merges
            ),
        },
    )
    write(
        f"{folder}/tokenizer_config.json",
        dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>", unk_token="<unk>"),
    )


def qwen2(folder, vocabulary, layers=2, width=64, model_type="qwen2", architecture="Qwen2ForCausalLM", **more):
    """A small model of type qwen2, or one like it, with random weights."""
    d, kv, mlp = width, width // 2, 2 * width
    config = dict(
        architectures=[architecture],
        model_type=model_type,
        hidden_size=d,
        intermediate_size=mlp,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        torch_dtype="float32",
        vocab_size=vocabulary,
        **more,
    )
    write(f"{folder}/config.json", config)
    rng = np.random.default_rng(0)

    def noise(*shape):
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(0.05)

    weights = {"model.embed_tokens.weight": noise(vocabulary, d), "model.norm.weight": 1 + noise(d)}
    for i in range(layers):
        at = f"model.layers.{i}."
        for name, rows, columns in (
            ("self_attn.q_proj", d, d),
            ("self_attn.k_proj", kv, d),
            ("self_attn.v_proj", kv, d),
            ("self_attn.o_proj", d, d),
            ("mlp.gate_proj", mlp, d),
            ("mlp.up_proj", mlp, d),
            ("mlp.down_proj", d, mlp),
        ):
            weights[at + name + ".weight"] = noise(rows, columns)
            if name[-6] in "qkv" and model_type == "qwen2":
                weights[at + name + ".bias"] = noise(rows)
        for name in "input_layernorm", "post_attention_layernorm":
            weights[at + name + ".weight"] = 1 + noise(d)
        if model_type == "qwen3":
            for name in "q_norm", "k_norm":
                weights[at + f"self_attn.{name}.weight"] = 1 + noise(d // 4)
    save_file(weights, f"{folder}/model.safetensors")


def link(folder, source, *names):
    os.makedirs(folder, exist_ok=True)
    for name in names:
        os.symlink(f"{DATA}/{source}/{name}", f"{folder}/{name}")


def write(path, what):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        json.dump(what, f)


def byte_level(folder, model, split, text=None):
    """A byte-level BPE of this pre-tokenizer, a pattern or another one: given, or trained on a text."""
    t = Tokenizer(model)
    first = pre_tokenizers.Split(Regex(split), "isolated") if isinstance(split, str) else split
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not isinstance(split, str))
    t.pre_tokenizer = pre_tokenizers.Sequence([first, bytes_]) if split else bytes_
    t.decoder = decoders.ByteLevel()
    if text:
        special = ["<|endoftext|>"]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        t.train_from_iterator(
            text, trainers.BpeTrainer(vocab_size=2000, special_tokens=special, initial_alphabet=alphabet)
        )
    else:
        t.add_special_tokens(["<|endoftext|>"])
    os.makedirs(folder, exist_ok=True)
    t.save(f"{folder}/tokenizer.json")
    write(
        f"{folder}/tokenizer_config.json",
        dict(tokenizer_class="PreTrainedTokenizerFast", eos_token="<|endoftext|>"),
    )
    return t.get_vocab_size()


# ---- models that transformers makes


def of_transformers(folder, config):
    """Random weights, larger ones than training begins with; norms and biases, too."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(11)
    model = AutoModelForCausalLM.from_config(config)
    for name, p in model.named_parameters():
        one = "ln_" in name and name.endswith("weight")
        torch.nn.init.normal_(p.data, 1.0 if one else 0.0, 0.03 if "embed" in name else 0.3)
    model.save_pretrained(folder)


def gpt2_model(folder, bpe):
    from transformers import GPT2Config

    vocabulary = byte_level(folder, bpe, None)
    of_transformers(
        folder, GPT2Config(vocab_size=vocabulary, n_embd=64, n_layer=2, n_head=4, n_positions=128)
    )


def gemma3(folder, stories_folder):
    """A Gemma 3: its layers have a window, but for the sixth; its tokenizer puts no space before a text."""
    from transformers import Gemma3TextConfig

    with open(f"{stories_folder}/tokenizer.json") as f:
        tokenizer = json.load(f)
    replace = tokenizer["normalizer"]["normalizers"][1]
    tokenizer["normalizer"] = replace
    tokenizer["decoder"]["decoders"] = tokenizer["decoder"]["decoders"][:3]
    write(f"{folder}/tokenizer.json", tokenizer)
    write(
        f"{folder}/tokenizer_config.json",
        dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>", unk_token="<unk>"),
    )
    of_transformers(
        folder,
        Gemma3TextConfig(
            vocab_size=512,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=7,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=16,
            max_position_embeddings=256,
            rope_parameters=dict(
                sliding_attention=dict(rope_type="default", rope_theta=500.0),
                full_attention=dict(rope_type="linear", factor=4.0, rope_theta=20000.0),
            ),
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        ),
    )


# ---- llama.cpp, in a process of its own: it prints, and ends the process when a file is wrong

SERVER = """
import json, sys, urllib.request, xllamacpp
asked = json.load(sys.stdin)
p = xllamacpp.CommonParams()
p.model.path, p.n_ctx, p.warmup, p.cpuparams.n_threads, p.n_parallel = asked["path"], 512, False, 1, 1
if asked.get("adapter"):
    p.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(asked["adapter"], 1.0)]
s = xllamacpp.Server(p)
answers = []
for path, body in asked["posts"]:
    head = {"Content-Type": "application/json"}
    r = urllib.request.Request(s.listening_address + path, json.dumps(body).encode(), head)
    answers.append(json.load(urllib.request.urlopen(r)))
json.dump(answers, open(asked["out"], "w"))
"""


def llama(path, posts, adapter=None):
    out = path + ".json"
    asked = dict(path=path, posts=posts, out=out, adapter=adapter)
    p = subprocess.run(
        [sys.executable, "-c", SERVER], input=json.dumps(asked), capture_output=True, text=True
    )
    if not os.path.exists(out):
        print(p.stderr[-2000:])
        return None
    with open(out) as f:
        return json.load(f)


def generated(path, prompt, n, adapter=None):
    """The greedy tokens after a prompt of ids."""
    body = dict(prompt=prompt, n_predict=n, temperature=0, return_tokens=True, ignore_eos=False)
    answer = llama(path, [("/completion", body)], adapter)
    return answer and answer[0]["tokens"]


class Tokens(ctypes.Structure):
    _fields_ = [("ids", ctypes.POINTER(ctypes.c_int32)), ("n", ctypes.c_int64), ("room", ctypes.c_int64)]


class Ours:
    def __init__(self, folder):
        name = next(
            n
            for n in ("liblockstep.so", "libls_text.so")
            if os.path.exists(f"{os.path.dirname(LOCKSTEP)}/{n}")
        )
        self.lib = ctypes.CDLL(f"{os.path.dirname(LOCKSTEP)}/{name}")
        self.t = ctypes.c_void_p()
        if self.lib.ls_tokenizer_open(ctypes.byref(self.t), folder.encode()):
            sys.exit(f"{folder}: no tokenizer")

    def encode(self, text):
        ids, raw = Tokens(), text.encode()
        self.lib.ls_tokenizer_encode(self.t, raw, ctypes.c_size_t(len(raw)), True, ctypes.byref(ids))
        return ids.ids[: ids.n] if ids.n else []


# ---- what must hold


def lines():
    """200 lines: plays, and the texts with which llama.cpp tests its tokenizers."""
    with open(f"{DATA}/tinyshakespeare/input.txt") as f:
        plays = [line for line in f.read().split("\n") if line][:160]
    with open(f"{DATA}/llama.cpp-vocab/ggml-vocab-qwen2.gguf.inp", newline="") as f:
        tests = [t.strip("\n") for t in f.read().split("__ggml_vocab_test__")]
    return plays + [t for t in tests if t][:40]


def same_ids(what, folder, texts, auto=True):
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    path = folder + ".ids.gguf"
    lockstep("export", folder, "--to", path, "--type", "q8_0")
    ours, theirs = Ours(folder), (AutoTokenizer if auto else PreTrainedTokenizerFast).from_pretrained(folder)
    posts = [("/tokenize", dict(content=t, add_special=True, parse_special=True)) for t in texts]
    answers = llama(path, posts)
    mine = [ours.encode(t) for t in texts]
    wrong = [i for i, a in enumerate(answers or []) if a["tokens"] != mine[i]]
    other = [i for i, t in enumerate(texts) if theirs(t)["input_ids"] != mine[i]]
    more = f"({len(texts)} texts)" + "".join(f"\n   {texts[i]!r}" for i in (wrong + other)[:4])
    check(
        f"{what}: ids of lockstep, llama.cpp and transformers",
        answers is not None and not wrong and not other,
        more,
    )


def greedy(folder, prompt, n=60):
    said = json.loads(lockstep("predict", folder, "--prompt", prompt, "--tokens", str(n), "--json"))
    return said["ids"] if "ids" in said else said["tokens"]


def runs(what, folder, prompt):
    import torch
    from transformers import AutoModelForCausalLM

    ids, want = Ours(folder).encode(prompt), greedy(folder, prompt)
    for kind in TYPES:
        path = f"{folder}.{kind}.gguf"
        lockstep("export", folder, "--to", path, "--type", kind)
        got = generated(path, ids, len(want))
        if kind == "f32":
            check(
                f"{what}: {len(want)} greedy tokens of llama.cpp",
                got == want,
                "" if got == want else f"{got} {want}",
            )
        else:
            same = sum(a == b for a, b in zip(got or [], want))
            check(f"{what}: {kind} runs", bool(got), f"({same} of {len(want)} tokens are those of f32)")
    lockstep("export", folder, "--to", folder + "-hf/")
    model = AutoModelForCausalLM.from_pretrained(folder + "-hf")
    with torch.no_grad():
        got = model.generate(torch.tensor([ids]), max_new_tokens=len(want), do_sample=False)[
            0, len(ids) :
        ].tolist()
    check(f"{what}: greedy tokens of transformers", got == want)


def adapter(base, work):
    """A PEFT folder with random adapters of stories260K, as an adapter and merged."""
    folder, rank, rng, tensors = f"{work}/adapter", 4, np.random.default_rng(1), {}
    for name, w in load_file(f"{base}/model.safetensors").items():
        if any(part in name for part in ("q_proj", "k_proj", "v_proj", "down_proj", "gate_proj")):
            at = "base_model.model." + name.removesuffix("weight")
            tensors[at + "lora_A.weight"] = (rng.standard_normal((rank, w.shape[1])) * 0.1).astype(np.float32)
            tensors[at + "lora_B.weight"] = (rng.standard_normal((w.shape[0], rank)) * 0.1).astype(np.float32)
    targets = ["q_proj", "k_proj", "v_proj", "down_proj", "gate_proj"]
    config = dict(peft_type="LORA", r=rank, lora_alpha=8, target_modules=targets, base_model_name_or_path=base)
    write(f"{folder}/adapter_config.json", config)
    save_file(tensors, f"{folder}/adapter_model.safetensors")
    lockstep("export", folder, "--to", f"{work}/adapter.gguf")
    lockstep("export", folder, "--merge", "--to", f"{work}/merged.gguf", "--type", "f32")
    prompt = Ours(base).encode("Once upon a time")
    plain = generated(f"{base}.f32.gguf", prompt, 40)
    beside = generated(f"{base}.f32.gguf", prompt, 40, f"{work}/adapter.gguf")
    merged = generated(f"{work}/merged.gguf", prompt, 40)
    check("adapter.gguf beside its base is merged.gguf", bool(merged) and beside == merged != plain, f"({beside})")


def peft_adapter(what, base, targets):
    """Random adapters that PEFT saves: beside the base, and merged. (Few tokens: logits of GPT-2 differ by a
    thousandth, because llama.cpp looks GELU up in a table of f16, and of random weights two may be so near.)"""
    tokens = 16
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(12)
    config = LoraConfig(r=4, lora_alpha=8, target_modules=targets, task_type="CAUSAL_LM")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    for name, p in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(p.data, 0.0, 0.2)
    folder = base + "-adapter"
    model.save_pretrained(folder)
    prompt = Ours(base).encode("Once upon a time")
    with torch.no_grad():
        ids = torch.tensor([prompt])
        want = model.generate(input_ids=ids, max_new_tokens=tokens, do_sample=False)[0, len(prompt) :].tolist()
    lockstep("export", folder, "--to", folder + ".gguf")
    lockstep("export", folder, "--merge", "--to", folder + "-merged.gguf", "--type", "f32")
    check(f"{what}: adapter of PEFT in lockstep", greedy(folder, "Once upon a time", tokens) == want)
    beside = generated(f"{base}.f32.gguf", prompt, tokens, folder + ".gguf")
    check(f"{what}: adapter of PEFT beside its base in llama.cpp", beside == want)
    check(f"{what}: merged, in llama.cpp", generated(folder + "-merged.gguf", prompt, tokens) == want)


def blocks(folder):
    """A matrix of a file in each type beside what the package gguf, or llama.cpp itself, makes of it."""
    weights, names = load_file(f"{folder}/model.safetensors"), {
        "token_embd.weight": "model.embed_tokens.weight"
    }
    for i in range(9):
        names[f"blk.{i}.ffn_down.weight"] = f"model.layers.{i}.mlp.down_proj.weight"
    for kind in "q8_0", "q4_0", "q4_k_m":
        path = f"{folder}.{kind}.gguf"
        lockstep("export", folder, "--to", path, "--type", kind, "--force")
        for t in gguf.GGUFReader(path).tensors:
            if t.name not in names:
                continue
            x = weights[names[t.name]]
            have = np.asarray(t.data).reshape(len(x), -1)
            try:
                check(
                    f"{kind}: {t.name} {t.tensor_type.name}",
                    np.array_equal(have, gguf.quants.quantize(x, t.tensor_type)),
                )
            except NotImplementedError:
                off = ((gguf.quants.dequantize(have, t.tensor_type) - x) ** 2).mean() / (x**2).mean()
                bound = {"Q4_K": 6e-3, "Q6_K": 4e-4}[t.tensor_type.name]
                check(
                    f"{kind}: {t.name} {t.tensor_type.name}",
                    off < bound,
                    f"(relative squared error {off:.1e})",
                )


def main():
    with tempfile.TemporaryDirectory() as work:
        texts = lines()
        stories(f"{work}/stories")
        runs("stories260K", f"{work}/stories", "Once upon a time")
        with open(f"{DATA}/stories260K/expected.json") as f:
            want = json.load(f)["greedy_ids"]
        check("stories260K: the published text", generated(f"{work}/stories.f32.gguf", [1], 60) == want[:60])
        same_ids("stories260K", f"{work}/stories", texts)
        adapter(f"{work}/stories", work)
        link(f"{work}/qwen", "qwen2.5", "tokenizer.json", "merges.txt", "vocab.json", "chat_template.jinja")
        qwen2(f"{work}/qwen", 151936)
        runs("qwen2, random", f"{work}/qwen", "The quick brown fox")
        same_ids("Qwen2.5", f"{work}/qwen", texts)
        slow = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
        for what, *kind, more in (
            ("qwen3", "qwen3", "Qwen3ForCausalLM", dict(head_dim=16)),
            ("mistral", "mistral", "MistralForCausalLM", dict(sliding_window=None)),
            ("llama, rotations of Llama 3", "llama", "LlamaForCausalLM",
             dict(rope_scaling=dict(slow, original_max_position_embeddings=64))),
            ("llama, linear rotations", "llama", "LlamaForCausalLM",
             dict(rope_scaling=dict(rope_type="linear", factor=4.0))),
        ):
            folder = f"{work}/{what.split()[-1]}"
            link(folder, "qwen2.5", "tokenizer.json", "merges.txt", "vocab.json")
            qwen2(folder, 151936, 2, 64, *kind, **more)
            runs(what, folder, "The quick brown fox")
        with open(f"{DATA}/tinyshakespeare/input.txt") as f:
            plays = f.read().split("\n\n")
        gpt2 = models.BPE.from_file(f"{DATA}/gpt2/vocab.json", f"{DATA}/gpt2/merges.txt")
        for name, model, split, text in (
            ("gpt2", gpt2, None, None),
            ("qwen2", models.BPE(), QWEN2, plays),
            (
                "llama-bpe",
                models.BPE(ignore_merges=True),
                re.sub(r"\\p\{N\}\|", r"\\p{N}{1,3}|", QWEN2, count=1),
                plays,
            ),
            ("tekken", models.BPE(ignore_merges=True), TEKKEN, plays),
            ("smollm", models.BPE(), pre_tokenizers.Digits(individual_digits=True), plays),
        ):
            folder = f"{work}/{name}"
            qwen2(folder, byte_level(folder, model, split, text))
            same_ids(f"pre-tokenizer {name}", folder, texts, auto=False)  # (not the one of its model's class)
        gpt2_model(f"{work}/gpt2-model", gpt2)
        runs("gpt2, random", f"{work}/gpt2-model", "The quick brown fox")
        peft_adapter("gpt2", f"{work}/gpt2-model", ["c_attn", "c_proj", "c_fc"])
        gemma3(f"{work}/gemma3", f"{work}/stories")
        runs("gemma3, random", f"{work}/gemma3", "Once upon a time")
        same_ids("gemma3, spaces as they are", f"{work}/gemma3", texts, auto=False)
        peft_adapter("gemma3", f"{work}/gemma3", ["q_proj", "v_proj", "down_proj"])
        large = f"{work}/blocks"
        os.makedirs(large)
        qwen2(large, byte_level(large, models.BPE(), None, plays), 9, 256)
        blocks(large)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
