"""A small BERT with a head for classes, in transformers: tests/golden/bert.

    python tools/golden/bert.py

tokenizer.json is trained on Shakespeare's sonnets below; texts.csv has texts with labels, of which some are longer
than TOKENS; expected.json has their ids, the ids of odd texts, logits in float64 and the losses of training."""

import csv
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [HERE]
import torch  # noqa: E402
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402
from transformers import BertConfig, BertForSequenceClassification  # noqa: E402

FOLDER = os.path.join(HERE, "..", "..", "tests", "golden", "bert")
TOKENS, STEPS, CLASSES = 12, 6, 3
LINES = """Shall I compare thee to a summer's day? Thou art more lovely and more temperate.
Rough winds do shake the darling buds of May, and summer's lease hath all too short a date.
Sometime too hot the eye of heaven shines, and often is his gold complexion dimm'd.
Let me not to the marriage of true minds admit impediments. Love is not love which alters.
My mistress' eyes are nothing like the sun; coral is far more red than her lips' red.
When, in disgrace with fortune and men's eyes, I all alone beweep my outcast state.""".splitlines()
TEXTS = [
    ("Shall I compare thee to a day?", "praise"),
    ("ROUGH WINDS do shake", "weather"),
    ("too hot the eye of heaven shines, and often is his gold complexion dimm'd", "weather"),
    ("Love is not love", "law"),
    ("coral, red", "praise"),
    ("the marriage of true minds", "law"),
    ("a summer's lease", "weather"),
    ("my mistress' eyes", "praise"),
]
ODD = [
    "",
    "Café naïve İstanbul ÅNGSTRÖM",
    "red\u0301 e\u0301ye",
    "love\u4e2d\u6587love",
    "tab\tand\r\nline\u00a0end\u200b\u0007x",
    "wind-shaken, (buds)... 50% off!",
    "x" * 120 + " love",
    "[CLS] love [MASK]",
    "\u03a3\u03a4\u039f\u03a3 stra\u00dfe \ud55c\uae00",
]


def tokenizer():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(LINES, trainers.WordPieceTrainer(vocab_size=160, special_tokens=special, show_progress=False))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    t.decoder = decoders.WordPiece()
    return t


def main():
    os.makedirs(FOLDER, exist_ok=True)
    t = tokenizer()
    t.save(os.path.join(FOLDER, "tokenizer.json"), pretty=False)
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=t.get_vocab_size(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=20, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=CLASSES,
    )
    model = BertForSequenceClassification(config)
    for name, p in model.named_parameters():
        p.data = torch.randn_like(p) * (0.3 if p.dim() > 1 else 0.1) + (1 if "LayerNorm.weight" in name else 0)
    model.save_pretrained(FOLDER)
    for name in ("generation_config.json",):
        if os.path.exists(os.path.join(FOLDER, name)):
            os.remove(os.path.join(FOLDER, name))
    with open(os.path.join(FOLDER, "texts.csv"), "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["review", "kind"])
        w.writerows(TEXTS)
    t.enable_truncation(TOKENS)
    t.enable_padding(length=TOKENS)
    rows = [t.encode(text) for text, _ in TEXTS]
    ids = torch.tensor([r.ids for r in rows])
    mask = torch.tensor([r.attention_mask for r in rows])
    names = sorted({k for _, k in TEXTS})
    labels = torch.tensor([names.index(k) for _, k in TEXTS])
    t.no_truncation()
    t.no_padding()
    odd = []
    for text in ODD:
        e = t.encode(text)
        ranges = [[len(text[:at].encode()) for at in pair] for pair in e.offsets]
        odd.append({"text": text, "ids": e.ids, "ranges": ranges, "decoded": t.decode(e.ids)})
    model = model.double().train()
    logits = model(input_ids=ids, attention_mask=mask).logits
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01, foreach=False)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    out = {"ids": ids.tolist(), "odd": odd, "logits": logits.tolist(), "losses": losses}
    with open(os.path.join(FOLDER, "expected.json"), "w") as f:
        json.dump(out, f)
        f.write("\n")


main()
