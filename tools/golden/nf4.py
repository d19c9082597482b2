"""nf4.py - a weight of 4 bits as bitsandbytes 0.50.2 writes it, the numbers that it stands for, and those that it was made of;
and a small llama that transformers saves with such weights.

    pip install bitsandbytes==0.50.2; python tools/golden/nf4.py
"""
import pathlib
import sys
import tempfile

sys.path.pop(0)  # the library `tokenizers` before the script of that name

import bitsandbytes.functional as bnb  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM  # noqa: E402


def numbers(n, first=0):
    """Sums of four pieces of a random word, of thirteen sizes: as tests/support/nf4_numbers.h makes them."""
    at = np.arange(first, first + n)
    with np.errstate(over="ignore"):
        z = (at.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    total = sum(((z >> np.uint64(16 * k)) & np.uint64(0xFFFF)).astype(np.int64) for k in range(4)) - 131070
    return (total * (1 + at // 64 * 7 % 13)).astype(np.float32) * np.float32(2.0**-22)


def make(path, rows, columns, whole):
    w = torch.from_numpy(numbers(rows * columns).reshape(rows, columns))
    codes, state = bnb.quantize_4bit(w, blocksize=64, quant_type="nf4", compress_statistics=True)
    tensors = {"layer.weight": codes}
    tensors |= {f"layer.weight.{k}": v.contiguous() for k, v in state.as_dict(packed=True).items()}
    if whole:
        tensors |= {"plain.weight": w, "expected": bnb.dequantize_4bit(codes, state)}
    save_file(tensors, path)


def make_model(folder):
    """Tensor k, in the order of names, has the numbers from k * 2^20 on, norms 1 more, rounded to bf16: so
    PyTorch's mean of the scales is exact."""
    sizes = {"vocab_size": 37, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1}
    model = LlamaForCausalLM(
        LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True)
    )
    for k, (name, p) in enumerate(sorted(model.named_parameters())):
        x = torch.from_numpy(numbers(p.numel(), k << 20).reshape(p.shape)) + float("norm" in name)
        p.data = x.bfloat16().float()
    nf4 = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
    )
    with tempfile.TemporaryDirectory() as plain:
        model.save_pretrained(plain)
        quantised = AutoModelForCausalLM.from_pretrained(plain, quantization_config=nf4, device_map="cpu")
    quantised.save_pretrained(folder)
    (folder / "generation_config.json").unlink()


tests = pathlib.Path(__file__).parents[2] / "tests"
make(tests / "golden/nf4.safetensors", 16, 128, True)
make(tests / "fuzz/corpus/safetensors/nf4", 2, 64, False)
make_model(tests / "golden/nf4_llama")
