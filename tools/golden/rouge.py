"""What rouge_score, without a stemmer, says of 200 pairs of texts: tests/golden/rouge.json.

python tools/golden/rouge.py"""

import json
import os
import random

from rouge_score import rouge_scorer

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "rouge.json")
WORDS = [
    "We",
    "show",
    "that",
    "the",
    "model",
    "learns",
    "the",
    "a",
    "graph",
    "of",
    "2",
    "GPT-3",
    "3.5%",
    "don't",
    "networks",
    "NETWORKS",
    "Café",
    "naïve",
    "İstanbul",
    "\u212aelvin",
    "straße",
    "x_y",
    "—",
    "...",
    "(and",
    "others)",
    "日本",
    "ﬁne",
    "e.g.",
    "state-of-the-art",
    "0.1",
    "in",
    "on",
    "to",
]
ENDS = ["", "", ".", "!", " ?", "\n", "\t", "\u00a0"]


def text(chance, most):
    n = chance.randrange(most)
    return "".join(
        chance.choice(WORDS)
        + chance.choice(["", ",", ";", "-", "'"] if chance.random() < 0.2 else [""])
        + chance.choice([" ", " ", " ", "  ", "\n"])
        for _ in range(n)
    ) + chance.choice(ENDS)


def changed(chance, words):
    """The same words with some left out, doubled, moved."""
    words = [w for w in words if chance.random() > 0.25]
    words = [v for w in words for v in ([w, w] if chance.random() < 0.1 else [w])]
    if len(words) > 3 and chance.random() < 0.5:
        at = chance.randrange(len(words))
        words = words[at:] + words[:at]
    return " ".join(words)


if __name__ == "__main__":
    chance = random.Random(7)
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    rows = []
    for i in range(200):
        target = text(chance, 3 if i < 20 else 30)
        made = text(chance, 30) if i % 3 == 0 else changed(chance, target.split(" "))
        scores = scorer.score(target, made)
        rows.append([target, made] + [scores[k].fmeasure for k in ("rouge1", "rouge2", "rougeL")])
    with open(OUT, "w", encoding="utf-8") as f:
        json.dump(rows, f, ensure_ascii=False, indent=0)
        f.write("\n")
    print(len(rows), "pairs; means", *(sum(r[k] for r in rows) / len(rows) for k in (2, 3, 4)))
    # every character whose lower case has a letter or digit of ASCII
    print(
        [
            hex(c)
            for c in range(0x80, 0x110000)
            if not 0xD800 <= c < 0xE000 and any(x.isascii() and x.isalnum() for x in chr(c).lower())
        ]
    )
