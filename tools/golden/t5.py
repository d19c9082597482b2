"""Hugging Face's T5ForConditionalGeneration, small, with every computation in float64: transformers computes
norms in float32 whatever the model's
type, so these are replaced by the same formula in the model's own."""

import os
import sys

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [
    HERE
]  # the library `tokenizers` before the script of that name
from transformers import T5Config, T5ForConditionalGeneration  # noqa: E402
from transformers.models.t5 import modeling_t5  # noqa: E402


class LayerNorm(nn.Module):
    def __init__(self, hidden, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


modeling_t5.T5LayerNorm = LayerNorm

SHARED = {
    "vocab_size": 37,
    "d_model": 24,
    "d_ff": 40,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,
    "dropout_rate": 0.0,
    "pad_token_id": 0,
    "decoder_start_token_id": 3,
}


def make(tied, head=True, **more):
    model = T5ForConditionalGeneration._from_config(
        T5Config(**SHARED, **more, tie_word_embeddings=tied), attn_implementation="eager"
    )
    if not tied and head:  # a head of its own: transformers makes one when weights for both are loaded
        model.lm_head.weight = nn.Parameter(torch.zeros(37, 24))
    return model


# the first T5: relu, head and embedding one table; T5 v1.1: a gated MLP, its own head, heads wider than
# d_model / heads; and what transformers 5 makes of
# tie_word_embeddings=False: one table, but what the head takes is not scaled (scale_decoder_outputs: false)
MODELS = {
    "relu": lambda: make(True, d_kv=6, num_layers=2, num_decoder_layers=3, num_heads=4),
    "gated": lambda: make(
        False, d_kv=10, num_layers=2, num_heads=3, feed_forward_proj="gated-gelu", layer_norm_epsilon=1e-5
    ),
    "unscaled": lambda: make(False, head=False, d_kv=6, num_layers=2, num_decoder_layers=3, num_heads=4),
}


def buckets():
    """transformers' bucket of each distance -300 .. 300, for T5's own numbers and others."""
    distance, of = torch.arange(-300, 301), modeling_t5.T5Attention._relative_position_bucket
    return {
        f"bucket.{n}.{far}.{both:d}": of(distance, both, n, far).int()
        for n, far in ((32, 128), (8, 10), (64, 256), (20, 100))
        for both in (False, True)
    }
