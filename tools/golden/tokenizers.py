"""tokenizers.py - what Hugging Face's tokenizers library makes of some texts: tests/golden/tokenizers.json,
and the small tokenizers that it is asked about.

    .venv/bin/pip install tokenizers==0.23.3
    LOCKSTEP_DATA=... .venv/bin/python tools/golden/tokenizers.py

The small ones are trained on this project's own documents: bpe (NFC, a pattern, byte-level), gpt2 (byte-level
with its own pattern and a space in front), llama (Prepend, Replace, byte fallback) and unigram (Metaspace,
byte
fallback, a template). qwen2.5 and t5-base are read from LOCKSTEP_DATA, where the test finds them too.
"""

import json
import os
import random
import sys

sys.path = [
    p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))
]  # this file has the library's name
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    __version__,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
GOLDEN = os.path.join(ROOT, "tests", "golden")
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXTS = [
    "",
    " ",
    "a",
    "Hello, world!",
    "  two  spaces ",
    "tabs\tand\nlines\r\n\r\nmore\n\n\n",
    "I'll say 'WE'RE' he'd",
    "12345 6,789.01",
    "x=3;y[2]+=1",
    "e\u0301 \u00e9 \u1e9b\u0323 \ufb01 \u2460 \u3300 \u212b",
    "\uff21\uff22\uff23 \uff71\uff9e",
    "\u0d28\u0d3f \u0928\u092e\u0938\u094d\u0924\u0947 \u0e19\u0e35\u0e48",
    "\ud55c\uad6d\uc5b4 \u65e5\u672c\u8a9e \u4e2d\u6587\uff0c\u6587\u5b57\u3002",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea",
    "\u00a0a\u2003b\u3000c\u2028d\u0085e",
    "\u2581\u2581a\u2581b",
    "\u200bzero\ufeffwidth\u00ad",
    "<|endoftext|>a<|im_start|>",
    "</s> <s>x<extra_id_0> <extra_id_1>y <pad>",
    "step<mark>  one",
    "left <mark>",
    "astop a stop, stop",
    "ab" * 200,
    " " * 70,
    "The training step is a program; every rank runs the same one.",
]


def corpus():
    names = ["README.md", "ARCHITECTURE.md", "docs/ranks.md", "docs/checkpoint.md"]
    return [
        line for name in names for line in open(os.path.join(ROOT, name), encoding="utf8").read().split("\n")
    ]


def add_tokens(t):
    t.add_special_tokens(
        [AddedToken("<|endoftext|>", normalized=False), AddedToken("</s>", normalized=False)]
    )
    t.add_tokens(
        [
            AddedToken("<mark>", lstrip=True, rstrip=True, normalized=False),
            AddedToken("stop", single_word=True),
            AddedToken("\u00e9l\u00e8ve"),
        ]
    )


def bpe():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(
            vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
        ),
    )
    return t


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(
            vocab_size=340, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
        ),
    )
    return t


def llama():
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    first = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    t.train_from_iterator(
        [w for line in corpus() for w in line.split()],
        trainers.BpeTrainer(vocab_size=480, special_tokens=first, show_progress=False),
    )
    j = json.loads(t.to_str())
    j["added_tokens"] = j["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(
        corpus(),
        trainers.UnigramTrainer(
            vocab_size=260, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
        ),
    )
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return t


def noise(n):
    r = random.Random(5)
    kinds = [
        lambda: chr(r.randrange(0x20, 0x7F)),
        lambda: " ",
        lambda: chr(r.randrange(0xA0, 0x700)),
        lambda: chr(r.randrange(0x900, 0x1000)),
        lambda: chr(r.randrange(0x3040, 0x30FF)),
        lambda: chr(r.randrange(0x300, 0x340)),
        lambda: r.choice("\n\t'\u200d\ufe0f\U0001f600"),
    ]
    return ["".join(r.choice(kinds)() for _ in range(r.randrange(1, 40))) for _ in range(n)]


def main():
    data = os.environ.get("LOCKSTEP_DATA")
    if not data:
        sys.exit(
            "LOCKSTEP_DATA is needed: a folder that holds qwen2.5/tokenizer.json and t5-base/tokenizer.json"
        )
    texts = TEXTS + ["un \u00e9l\u00e8ve, e\u0301le\u0300ve"] + noise(40)
    out = {"tokenizers": __version__, "texts": texts, "of": {}}
    for name, make in [
        ("bpe", bpe),
        ("gpt2", gpt2),
        ("llama", llama),
        ("unigram", unigram),
        ("qwen2.5", None),
        ("t5-base", None),
    ]:
        if make:
            t = make()
            add_tokens(t)
            path = os.path.join(GOLDEN, "tokenizer_%s.json" % name)
            t.save(path, pretty=False)
        else:
            path = os.path.join(data, name, "tokenizer.json")
        t = Tokenizer.from_file(path)
        ids = [t.encode(x).ids for x in texts]
        out["of"][name] = {
            "ids": ids,
            "offsets": [[v for o in t.encode(x).offsets for v in o] for x in texts],
            "plain": [t.encode(x, add_special_tokens=False).ids for x in texts],
            "text": [t.decode(i) for i in ids],
            "text_with_special": [t.decode(i, skip_special_tokens=False) for i in ids],
        }
    with open(os.path.join(GOLDEN, "tokenizers.json"), "w", encoding="utf8") as f:
        json.dump(out, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


main()
