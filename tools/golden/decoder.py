"""Hugging Face's Qwen2 and Llama, small, with every computation in float64: transformers computes norms and
rotary positions in float32
whatever the model's type, so these two are replaced by the same formulas in the model's own."""

import os
import sys

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [
    HERE
]  # the library `tokenizers` before the script of that name
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM  # noqa: E402
from transformers.models.llama import modeling_llama  # noqa: E402
from transformers.models.qwen2 import modeling_qwen2  # noqa: E402


class RMSNorm(nn.Module):
    def __init__(self, hidden, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class RotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.dim, self.theta = dim, config.rope_parameters["rope_theta"]

    def forward(self, x, position_ids):
        frequency = self.theta ** (-torch.arange(0, self.dim, 2, dtype=torch.float64) / self.dim)
        angle = torch.cat([position_ids[..., None] * frequency] * 2, -1)
        return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


modeling_qwen2.Qwen2RMSNorm = modeling_llama.LlamaRMSNorm = RMSNorm
modeling_qwen2.Qwen2RotaryEmbedding = modeling_llama.LlamaRotaryEmbedding = RotaryEmbedding

SHARED = {
    "vocab_size": 37,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "attn_implementation": "sdpa",
}
# one that is tied, with the biases of q, k and v; one that is not, without biases, its heads wider than
# hidden_size / heads
MODELS = {
    "qwen2": lambda: Qwen2ForCausalLM(
        Qwen2Config(
            **SHARED, num_key_value_heads=2, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True
        )
    ),
    "llama": lambda: LlamaForCausalLM(
        LlamaConfig(
            **SHARED,
            num_key_value_heads=1,
            rms_norm_eps=1e-5,
            rope_theta=1e4,
            head_dim=8,
            tie_word_embeddings=False
        )
    ),
}
