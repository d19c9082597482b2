"""Pairs of texts for tests/golden/bert: pairs.csv, and in pairs.json what transformers and PyTorch make of them.

    python tools/golden/bert_pairs.py

The model and the tokenizer are those of bert.py. Embeddings are trained as by MultipleNegativesRankingLoss of
sentence-transformers with mean pooling, length 1 and scale 20, in float64. The ids and token types of pairs are those
of `tokenizer(first, second, truncation=True)`."""

import csv
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [HERE]
import torch  # noqa: E402
from transformers import BertForSequenceClassification, BertModel, PreTrainedTokenizerFast  # noqa: E402

FOLDER = os.path.join(HERE, "..", "..", "tests", "golden", "bert")
QUERY, PASSAGE, PAIRS = 8, 12, (14, 13, 7, 20)
ROWS = [
    ("Shall I compare thee?", "Thou art more lovely and more temperate.", "praise"),
    ("rough winds", "Rough winds do shake the darling buds of May", "weather"),
    ("too hot", "Sometime too hot the eye of heaven shines, and often is his gold complexion dimm'd.", "weather"),
    ("the marriage of true minds, and love which is not love and alters", "admit", "law"),
    ("my mistress' eyes are nothing like the sun", "coral is far more red than her lips' red", "praise"),
    ("disgrace with fortune", "I all alone beweep my outcast state", "law"),
    ("summer's lease", "hath all too short a date", "weather"),
    ("love alters", "Love is not love", "law"),
]


def tokenizer():
    return PreTrainedTokenizerFast(
        tokenizer_file=os.path.join(FOLDER, "tokenizer.json"), pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        unk_token="[UNK]", mask_token="[MASK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def embed(model, t, texts, tokens):
    x = t(texts, truncation=True, max_length=tokens, padding="max_length", return_tensors="pt")
    mask = x["attention_mask"].unsqueeze(-1).double()
    y = model(**x).last_hidden_state
    return torch.nn.functional.normalize((y * mask).sum(1) / mask.sum(1).clamp(min=1e-9), p=2, dim=1)


def rows_of(model, t, rows):
    """A loss and a hit for each row of a micro-batch."""
    a = embed(model, t, [ROWS[i][0] for i in rows], QUERY)
    b = embed(model, t, [ROWS[i][1] for i in rows], PASSAGE)
    scores = a @ b.T * 20
    labels = torch.arange(len(rows))
    return torch.nn.functional.cross_entropy(scores, labels, reduction="none"), scores.argmax(1) == labels


def train(t, steps):
    """Losses of AdamW over steps, which are lists of micro-batches."""
    model = BertModel.from_pretrained(FOLDER, add_pooling_layer=False).double().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01, foreach=False)
    losses = []
    for micros in steps:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.cat([rows_of(model, t, m)[0] for m in micros]).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def evaluate(t, batches):
    model = BertModel.from_pretrained(FOLDER, add_pooling_layer=False).double().eval()
    with torch.no_grad():
        parts = [rows_of(model, t, b) for b in batches]
    hits = torch.cat([p[1] for p in parts])
    return [torch.cat([p[0] for p in parts]).mean().item(), hits.double().mean().item()]


def pairs(t, tokens):
    x = t(
        [r[0] for r in ROWS], [r[1] for r in ROWS], truncation=True, max_length=tokens, padding="max_length",
        return_tensors="pt",
    )
    return x, {"tokens": tokens, "ids": x["input_ids"].tolist(), "types": x["token_type_ids"].tolist()}


def main():
    t = tokenizer()
    with open(os.path.join(FOLDER, "pairs.csv"), "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["query", "passage", "kind"])
        w.writerows(ROWS)
    model = BertModel.from_pretrained(FOLDER, add_pooling_layer=False).double().eval()
    with torch.no_grad():
        vectors = embed(model, t, [r[0] for r in ROWS], QUERY)
    classifier = BertForSequenceClassification.from_pretrained(FOLDER).double().eval()
    with torch.no_grad():
        logits = classifier(**pairs(t, PAIRS[0])[0]).logits
    micros = [[0, 2, 4, 6], [1, 3, 5, 7]]
    out = {
        "losses": train(t, [micros] * 6),
        "padded": train(t, [[list(range(6))], [[6, 7]]] * 2),
        "evaluation": evaluate(t, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        "vectors": vectors.flatten().tolist(),
        "logits": logits.flatten().tolist(),
        "pairs": [pairs(t, tokens)[1] for tokens in PAIRS],
    }
    with open(os.path.join(FOLDER, "pairs.json"), "w") as f:
        json.dump(out, f)
        f.write("\n")


main()
