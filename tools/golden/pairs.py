"""pairs.py - what T5's tokenizer of transformers makes of pairs of texts, cut and filled up:
tests/golden/pairs.json.

    LOCKSTEP_DATA=... .venv/bin/python tools/golden/pairs.py

For each tokenizer the ids of "summarize: " + text (24) and of headline (8), with padding="max_length" and
truncation=True, which fill up with id 0. unigram
is the small one that tools/golden/tokenizers.py makes; t5-base lies in LOCKSTEP_DATA, where the test finds it
too.
"""

import json
import os
import sys

sys.path = [
    p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))
]  # tokenizers.py has a library's name
from transformers import PreTrainedTokenizerFast, __version__  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden")
PAIRS = [
    ("Keep plants alive.", "Put the pot near a window.\nWater it when the soil is dry."),
    ("Clean the pan.", "Rub."),
    (
        "Write a letter to a friend who lives far away, and post it.",
        'Take paper.  Write the date\tfirst,\r\nthen the "name" of your friend; tell what you did.',
    ),
    (
        "Use caf\u00e9 words \u2014 na\u00efve ones.",
        "\u2028Some \ufb01ne words: caf\u00e9, na\u00efve, \u00fcber \u2026 \u65e5\u672c \U0001f44d.",
    ),
    ("x", "y" * 300),
    ("One </s> inside", "An end </s> inside, and <pad> too"),
    (" spaces around ", "  two  spaces  "),
    ("a b c d e f g h i j", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"),
]


def ids(tokenizer, text, length):
    return tokenizer(text, max_length=length, padding="max_length", truncation=True)["input_ids"]


def main():
    out = {
        "made_with": f"transformers {__version__}",
        "pairs": [{"headline": h, "text": t} for h, t in PAIRS],
    }
    for name, path in [
        ("unigram", os.path.join(GOLDEN, "tokenizer_unigram.json")),
        ("t5-base", os.path.join(os.environ["LOCKSTEP_DATA"], "t5-base", "tokenizer.json")),
    ]:
        t = PreTrainedTokenizerFast(
            tokenizer_file=path, eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
        )
        assert t.pad_token_id == 0
        out[name] = [
            {"source_ids": ids(t, "summarize: " + text, 24), "target_ids": ids(t, headline, 8)}
            for headline, text in PAIRS
        ]
    with open(os.path.join(GOLDEN, "pairs.json"), "w", encoding="utf8") as f:
        json.dump(out, f)
        f.write("\n")


if __name__ == "__main__":
    main()
