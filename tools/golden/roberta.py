"""A small RoBERTa with a head for classes, in transformers: tests/golden/roberta.

    python tools/golden/roberta.py

The texts are pairs.csv of tests/golden/bert. expected.json has logits of single texts and of pairs, and the losses of
training on single texts, in float64."""

import csv
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [HERE]
import torch  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForSequenceClassification  # noqa: E402

GOLDEN = os.path.join(HERE, "..", "..", "tests", "golden")
FOLDER = os.path.join(GOLDEN, "roberta")
TOKENS, PAIR, STEPS = 12, 17, 4


def tokenizer(texts):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)]
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=special, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    t.train_from_iterator(texts, trainer)
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return t


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(GOLDEN, "bert", "pairs.csv"), encoding="utf-8") as f:
        rows = list(csv.reader(f))[1:]
    t = tokenizer([text for row in rows for text in row[:2]])
    t.save(os.path.join(FOLDER, "tokenizer.json"), pretty=False)
    torch.manual_seed(4)
    config = RobertaConfig(
        vocab_size=t.get_vocab_size(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=20, type_vocab_size=1, layer_norm_eps=1e-5, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, num_labels=3, pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )
    model = RobertaForSequenceClassification(config)
    for name, p in model.named_parameters():
        p.data = torch.randn_like(p) * (0.3 if p.dim() > 1 else 0.1) + (1 if "LayerNorm.weight" in name else 0)
    model.save_pretrained(FOLDER)
    fast = PreTrainedTokenizerFast(
        tokenizer_file=os.path.join(FOLDER, "tokenizer.json"), pad_token="<pad>", model_max_length=18,
        model_input_names=["input_ids", "attention_mask"],
    )
    options = {"truncation": True, "padding": "max_length", "return_tensors": "pt"}
    single = fast([r[0] for r in rows], max_length=TOKENS, **options)
    pair = fast([r[0] for r in rows], [r[1] for r in rows], max_length=PAIR, **options)
    names = sorted({r[2] for r in rows})
    labels = torch.tensor([names.index(r[2]) for r in rows])
    model = model.double().train()
    with torch.no_grad():
        out = {"logits": model(**single).logits.flatten().tolist(), "pairs": model(**pair).logits.flatten().tolist()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01, foreach=False)
    out["losses"] = []
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = model(**single, labels=labels).loss
        loss.backward()
        optimizer.step()
        out["losses"].append(loss.item())
    with open(os.path.join(FOLDER, "expected.json"), "w", encoding="utf-8") as f:
        json.dump(out, f)
        f.write("\n")


main()
