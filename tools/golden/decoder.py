"""Small language models of Hugging Face with every computation in float64: transformers computes norms and
rotary positions in float32 whatever the model's type, so these two are replaced by the same formulas in the
model's own. Scaled rotary positions are transformers' own, told that its float has 64 bits."""

import os
import sys

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [
    HERE
]  # the library `tokenizers` before the script of that name
from transformers import (  # noqa: E402
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    OlmoeConfig,
    OlmoeForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402
from transformers.models.gemma3 import modeling_gemma3  # noqa: E402
from transformers.models.llama import modeling_llama  # noqa: E402
from transformers.models.mistral import modeling_mistral  # noqa: E402
from transformers.models.mixtral import modeling_mixtral  # noqa: E402
from transformers.models.olmoe import modeling_olmoe  # noqa: E402
from transformers.models.qwen2 import modeling_qwen2  # noqa: E402
from transformers.models.qwen2_moe import modeling_qwen2_moe  # noqa: E402
from transformers.models.qwen3 import modeling_qwen3  # noqa: E402
from transformers.models.qwen3_moe import modeling_qwen3_moe  # noqa: E402


class RMSNorm(nn.Module):
    def __init__(self, hidden, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class GemmaNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1 + self.weight)


def frequencies(config, layer_type=None):
    parameters = config.rope_parameters[layer_type] if layer_type else config.rope_parameters
    if parameters["rope_type"] == "default":
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return parameters["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    usual, torch.float = torch.float, torch.float64
    try:
        return ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, None, layer_type=layer_type)[0]
    finally:
        torch.float = usual


class RotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.frequency = frequencies(config)

    def forward(self, x, position_ids):
        angle = torch.cat([position_ids[..., None] * self.frequency] * 2, -1)
        return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


class GemmaRotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer_types = []  # whose buffers transformers fills
        self.frequency = {kind: frequencies(config, kind) for kind in set(config.layer_types)}

    def forward(self, x, position_ids, layer_type):
        angle = torch.cat([position_ids[..., None] * self.frequency[layer_type]] * 2, -1)
        return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


class GemmaEmbedding(modeling_gemma3.Gemma3TextScaledWordEmbedding):
    def __init__(self, rows, dim, padding, embed_scale):
        super().__init__(rows, dim, padding, embed_scale)
        self.embed_scale = nn.Buffer(torch.tensor(embed_scale, dtype=torch.float64), persistent=False)


modeling_gemma3.Gemma3RMSNorm, modeling_gemma3.Gemma3RotaryEmbedding = GemmaNorm, GemmaRotaryEmbedding
modeling_gemma3.Gemma3TextScaledWordEmbedding = GemmaEmbedding
modeling_qwen2.Qwen2RMSNorm = modeling_llama.LlamaRMSNorm = RMSNorm
modeling_qwen3.Qwen3RMSNorm = modeling_mistral.MistralRMSNorm = RMSNorm
modeling_qwen2.Qwen2RotaryEmbedding = modeling_llama.LlamaRotaryEmbedding = RotaryEmbedding
modeling_qwen3.Qwen3RotaryEmbedding = modeling_mistral.MistralRotaryEmbedding = RotaryEmbedding

modeling_mixtral.MixtralRMSNorm = modeling_olmoe.OlmoeRMSNorm = RMSNorm
modeling_qwen2_moe.Qwen2MoeRMSNorm = modeling_qwen3_moe.Qwen3MoeRMSNorm = RMSNorm
modeling_mixtral.MixtralRotaryEmbedding = modeling_olmoe.OlmoeRotaryEmbedding = RotaryEmbedding
modeling_qwen2_moe.Qwen2MoeRotaryEmbedding = modeling_qwen3_moe.Qwen3MoeRotaryEmbedding = RotaryEmbedding


def wide(function):
    """The function, which computes in float32 whatever it is given, in 64 bits."""

    def run(*args, **more):
        usual, cast = torch.float, torch.Tensor.float
        torch.float = torch.float32 = torch.float64
        torch.Tensor.float = torch.Tensor.double
        try:
            return function(*args, **more)
        finally:
            torch.float = torch.float32 = usual
            torch.Tensor.float = cast

    return run


for router in (
    modeling_mixtral.MixtralTopKRouter,
    modeling_olmoe.OlmoeTopKRouter,
    modeling_qwen2_moe.Qwen2MoeTopKRouter,
    modeling_qwen3_moe.Qwen3MoeTopKRouter,
):
    router.forward = wide(router.forward)

SHARED = {
    "vocab_size": 37,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "attn_implementation": "sdpa",
}
LLAMA = {"num_key_value_heads": 1, "rms_norm_eps": 1e-5, "head_dim": 8, "tie_word_embeddings": False}
EAGER = {"experts_implementation": "eager"}  # the other one has no float64
EXPERTS = {**EAGER, "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 10}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def llama(**more):
    return LlamaForCausalLM(LlamaConfig(**SHARED, **LLAMA, **more))


# qwen2: tied, with the biases of q, k and v; llama: not, without biases, its heads wider than hidden_size /
# heads. Of the four rotations of llama3's heads one stays, one is divided, and two are between.
MODELS = {
    "qwen2": lambda: Qwen2ForCausalLM(
        Qwen2Config(
            **SHARED, num_key_value_heads=2, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True
        )
    ),
    "llama": lambda: llama(rope_theta=1e4),
    "linear": lambda: llama(rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2.5}),
    "llama3": lambda: llama(rope_parameters=LLAMA3),
    "qwen3": lambda: Qwen3ForCausalLM(
        Qwen3Config(
            **SHARED,
            num_key_value_heads=2,
            head_dim=10,
            rms_norm_eps=1e-6,
            rope_theta=1e6,
            tie_word_embeddings=True
        )
    ),
    "mistral": lambda: MistralForCausalLM(
        MistralConfig(
            **SHARED,
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            rope_theta=1e4,
            sliding_window=None,
            tie_word_embeddings=False
        )
    ),
    "window": lambda: MistralForCausalLM(
        MistralConfig(
            **SHARED,
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            rope_theta=1e4,
            sliding_window=3,
            tie_word_embeddings=False
        )
    ),
    "gemma3": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(
            **SHARED,
            num_key_value_heads=2,
            head_dim=10,
            query_pre_attn_scalar=7,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention"],
            rope_parameters={
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
            pad_token_id=None,
            bos_token_id=None,
            eos_token_id=None
        )
    ),
    "mixtral": lambda: MixtralForCausalLM(
        MixtralConfig(
            **SHARED,
            **EAGER,
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            rope_theta=1e4,
            num_local_experts=4,
            num_experts_per_tok=2,
            output_router_logits=True,
            router_aux_loss_coef=0.25
        )
    ),
    "qwen2_moe": lambda: Qwen2MoeForCausalLM(
        Qwen2MoeConfig(
            **SHARED,
            **EXPERTS,
            num_key_value_heads=2,
            rms_norm_eps=1e-6,
            rope_theta=1e6,
            shared_expert_intermediate_size=20,
            decoder_sparse_step=2
        )
    ),
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            **SHARED,
            **EXPERTS,
            num_key_value_heads=2,
            head_dim=10,
            rms_norm_eps=1e-6,
            rope_theta=1e6,
            norm_topk_prob=True,
            tie_word_embeddings=True
        )
    ),
    "olmoe": lambda: OlmoeForCausalLM(
        OlmoeConfig(
            **{**SHARED, **EAGER, "intermediate_size": 10},
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            rope_theta=1e4,
            num_experts=6,
            num_experts_per_tok=3,
            clip_qkv=0.9,
            pad_token_id=None,
            tie_word_embeddings=False
        )
    ),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(
            vocab_size=37,
            n_embd=24,
            n_inner=40,
            n_layer=2,
            n_head=4,
            n_positions=12,
            resid_pdrop=0,
            embd_pdrop=0,
            attn_pdrop=0,
        )
    ),
}


def disk(model):
    """The parameters under their names in files, where experts have tensors of their own: (name, parameter,
    which part of it, or of its gradient)."""
    for key, p in model.named_parameters():
        name = key.replace(".mlp.", ".block_sparse_moe.") if isinstance(model, MixtralForCausalLM) else key
        head, of_experts, what = name.partition(".experts.")
        if not of_experts:
            yield name, p, lambda t: t
            continue
        mixtral = "block_sparse_moe" in head
        for e in range(p.shape[0]):
            at = f"{head}.experts.{e}."
            if what == "down_proj":
                yield at + ("w2" if mixtral else what) + ".weight", p, lambda t, e=e: t[e]
                continue
            n = p.shape[1] // 2
            yield at + ("w1" if mixtral else "gate_proj") + ".weight", p, lambda t, e=e, n=n: t[e, :n]
            yield at + ("w3" if mixtral else "up_proj") + ".weight", p, lambda t, e=e, n=n: t[e, n:]


def balance(model, router_logits, samples):
    """transformers' loss that spreads tokens over experts, of each sample by itself: their mean, times its
    factor."""
    config = model.config
    if not getattr(config, "output_router_logits", False):
        return 0
    of_samples = zip(*(layer.reshape(samples, -1, layer.shape[-1]) for layer in router_logits))
    rows = [
        wide(modeling_mixtral.load_balancing_loss_func)(
            layers, config.num_local_experts, config.num_experts_per_tok
        )
        for layers in of_samples
    ]
    return config.router_aux_loss_coef * sum(rows) / samples
