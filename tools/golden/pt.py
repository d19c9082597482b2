#!/usr/bin/env python3
"""PyTorch's files for the tests, and the live comparison with torch.load.

    python tools/golden/pt.py make                      # tests/golden/pt_*.pt, what is in them as
    .safetensors, tests/golden/pt_names.txt, and tests/fuzz/corpus/pt
    python tools/golden/pt.py check LOCKSTEP FILE.pt... # every file through `lockstep export` to both
    formats, compared bit for bit

`check` skips files that `lockstep export` refuses, and says with which message."""

import io
import os
import random
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, OrderedDict

import numpy as np
import torch
from safetensors.torch import load_file, save_file

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
GOLDEN = os.path.join(ROOT, "tests", "golden")
CORPUS = os.path.join(ROOT, "tests", "fuzz", "corpus", "pt")


def counting(*shape, dtype=torch.float32):
    n = 1
    for size in shape:
        n *= size
    return (torch.arange(n, dtype=torch.float64) / 4 - 1).reshape(shape).to(dtype)


def tensors():
    """Every element type, and every way to lie in a storage."""
    base = counting(4, 6)
    out = OrderedDict()
    for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8"):
        out["types." + name] = (
            counting(2, 3, dtype=getattr(torch, name))
            if name != "uint8"
            else torch.arange(5, dtype=torch.uint8)
        )
    out["scalar"] = torch.tensor(7, dtype=torch.int64)
    out["empty"] = torch.empty(3, 0)
    out["view.whole"] = base
    out["view.transposed"] = base.t()
    out["view.rows"] = base[1:3]
    out["view.column"] = base[:, 2]
    out["view.every_second"] = base[::2, 1::2]
    out["expanded"] = counting(1, 3).expand(2, 3)
    out["channels_last"] = counting(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    out["parameter"] = torch.nn.Parameter(counting(3))
    out["tied"] = out["parameter"]
    return out


def twin(name, state):
    """The same as safetensors: contiguous, each with data of its own."""
    save_file(
        {k: v.detach().contiguous().clone() for k, v in state.items()},
        os.path.join(GOLDEN, name + ".safetensors"),
        {"format": "pt"},
    )
    os.chmod(os.path.join(GOLDEN, name + ".safetensors"), 0o644)


class Evil:
    def __reduce__(self):
        return os.system, ("touch executed",)


def rewrite(path, change=None, compression=zipfile.ZIP_STORED, drop=()):
    """The archive again, by an ordinary zip program: other padding, one record changed."""
    with zipfile.ZipFile(path) as z:
        records = [(i.filename, z.read(i)) for i in z.infolist()]
    with zipfile.ZipFile(path, "w", compression) as z:
        for name, data in records:
            if os.path.basename(name) not in drop:
                z.writestr(
                    zipfile.ZipInfo(name), (change or {}).get(os.path.basename(name), data), compression
                )


def module():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


def beside():
    """What training checkpoints keep beside their tensors. Only NumPy's is more than weights_only allows."""
    random.seed(1)
    np.random.seed(1)
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "generator": np.random.default_rng(1).bit_generator.state,
        "array": np.arange(6.0).reshape(2, 3),
        "scalar": np.float64(0.5),
        "bytes": b"\x00\xff bytes",
        "bytearray": bytearray(b"abc"),
        "set": {1, 2},
        "complex": 1 + 2j,
        "counter": Counter("abca"),
        "ordered": OrderedDict(a=1),
        "layout": torch.strided,
        "scheme": torch.per_tensor_affine,
        "class": torch.FloatTensor,
        "large": 2**2000,
        True: None,
    }


def number_of_16_bits():
    return torch.ones(3, dtype=torch.complex64).to(torch.complex32)


def with_attributes():
    """Tensors and parameters that have attributes of Python."""
    out = OrderedDict(parameter=torch.nn.Parameter(counting(2, 3)), tensor=counting(3))
    out["parameter"].tensor_model_parallel = True
    out["tensor"].note = "one"
    out["view"] = counting(4, 2).t()
    out["view"].note = {"partition": (1, 2)}
    return out


def refused():
    """Values for which a plain copy of a storage would be wrong."""
    number = torch.tensor([1 + 2j, 3 - 4j])
    quantized = torch.quantize_per_tensor(counting(4), 0.25, 0, torch.qint8)
    return {
        "negated": torch.imag(number.conj()),
        "conjugated": number.conj(),
        "meta": torch.empty(2, 3, device="meta"),
        "sparse": torch.eye(3).to_sparse(),
        "quantized": quantized,
        "nested": torch.nested.nested_tensor([counting(2), counting(3)]),
        "storage": counting(3).untyped_storage(),
    }


def allowed_names():
    """The globals that this PyTorch's weights_only loader allows, as a pickle has them."""
    from torch._weights_only_unpickler import _get_allowed_globals

    names = sorted(" ".join(name.rsplit(".", 1)) for name in _get_allowed_globals())
    with open(os.path.join(GOLDEN, "pt_names.txt"), "w") as f:
        f.write("".join(name + "\n" for name in names))


def make():
    path = lambda name: os.path.join(GOLDEN, "pt_" + name + ".pt")
    state = tensors()
    torch.save(state, path("tensors"))
    twin("pt_tensors", state)
    rest = OrderedDict(
        bool=torch.tensor([True, False, True]),
        int16=torch.tensor([-1, 2], dtype=torch.int16),
        int8=torch.tensor([-1], dtype=torch.int8),
        float8_e4m3fn=torch.ones(3, dtype=torch.float8_e4m3fn),
        uint16=torch.tensor([1, 2], dtype=torch.uint16),
        complex64=torch.ones(1, dtype=torch.complex64),
    )
    torch.save(rest, path("other_types"))

    net = module()
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    weights = net.state_dict()
    twin("pt_module", weights)
    torch.save(weights, path("module"))  # an OrderedDict with _metadata
    torch.save(
        {
            "epoch": 3,
            "loss": 0.25,
            "model_state_dict": weights,
            "optimizer_state_dict": optimizer.state_dict(),
            "device": torch.device("cpu"),
            "size": torch.Size([1, 2]),
            "type": torch.bfloat16,
            "large": 10**30,
            "notes": ["one", None, True, (1.5, -70000)],
        },
        path("checkpoint"),
    )
    nested = {
        "0": {"weight": weights["0.weight"], "bias": weights["0.bias"]},
        "1": {
            k: weights["1." + k]
            for k in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
        },
        "config": {"layers": 2},
    }
    torch.save(nested, path("nested"))
    torch.save(weights, path("before_1_6"), _use_new_zipfile_serialization=False)
    torch.save(state, path("tensors_before_1_6"), _use_new_zipfile_serialization=False)
    torch.save(weights, path("protocol_5"), pickle_protocol=5)
    torch.save(weights["0.weight"], path("single"))
    torch.save(weights, path("other_zip"))
    rewrite(
        path("other_zip"), drop=("byteorder", "serialization_id", ".format_version", ".storage_alignment")
    )

    torch.save({"model": weights, "rng": torch.get_rng_state(), "more": beside()}, path("beside"))
    torch.save({**weights, "more": beside()}, path("beside_flat"))
    torch.save({**weights, "more": beside()}, path("beside_protocol_5"), pickle_protocol=5)
    torch.save(with_attributes(), path("attributes"))
    twin("pt_attributes", with_attributes())
    torch.save(
        OrderedDict(complex128=torch.ones(2, dtype=torch.complex128), complex32=number_of_16_bits()),
        path("more_types"),
    )
    torch.save({"array": np.arange(6.0)}, path("refused_arrays"))
    for name, value in refused().items():
        torch.save({"good": torch.ones(2), "odd": value}, path("refused_" + name))
    allowed_names()

    torch.save({"weight": torch.ones(2), "more": Evil()}, path("refused_call"))
    torch.save(module(), path("refused_module"))
    torch.save(weights, path("refused_big_endian"))
    rewrite(path("refused_big_endian"), {"byteorder": b"big"})
    torch.save(weights, path("refused_compressed"))
    rewrite(path("refused_compressed"), compression=zipfile.ZIP_DEFLATED)
    for name in os.listdir(GOLDEN):
        if name.startswith("pt_"):
            os.chmod(os.path.join(GOLDEN, name), 0o644)
    corpus(weights)


def small_zip(pickle, storages, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in [("a/data.pkl", pickle)] + [("a/data/%d" % i, s) for i, s in enumerate(storages)]:
            z.writestr(zipfile.ZipInfo(name), data, compression)
    return out.getvalue()


def tensor(key, count, sizes, strides, offset=0, storage=b"FloatStorage"):
    text = lambda s: b"X" + struct.pack("<I", len(s)) + s
    numbers = lambda list: b"(" + b"".join(b"J" + struct.pack("<i", n) for n in list) + b"t"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(("
        + text(b"storage")
        + b"ctorch\n"
        + storage
        + b"\n"
        + text(b"%d" % key)
        + text(b"cpu")
        + b"J"
        + struct.pack("<i", count)
        + b"tQJ"
        + struct.pack("<i", offset)
        + numbers(sizes)
        + numbers(strides)
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


def corpus(weights):
    """Small, so that every byte of them is changed in turn."""
    os.makedirs(CORPUS, exist_ok=True)
    key = lambda s: b"X" + struct.pack("<I", len(s)) + s
    dict_of = lambda *items: b"\x80\x02}(" + b"".join(key(k) + v for k, v in items) + b"u."
    f32 = struct.pack("<6f", *range(6))
    whole = tensor(0, 6, (2, 3), (3, 1))
    laughs = b"]q\0"  # 10^17 lists in 400 bytes
    for i in range(1, 20):
        laughs = b"](" + laughs + b"h%c" % (i - 1) * 7 + b"eq%c" % i
    files = {
        "plain": small_zip(dict_of((b"w", whole)), [f32]),
        "views": small_zip(
            dict_of((b"w", tensor(0, 6, (3, 2), (1, 3))), (b"x", tensor(0, 6, (2,), (0,), 5))), [f32]
        ),
        "beyond": small_zip(dict_of((b"w", tensor(0, 6, (2, 3), (3, 1), 1))), [f32]),
        "short": small_zip(dict_of((b"w", whole)), [f32[:20]]),
        "no_storage": small_zip(dict_of((b"w", whole)), []),
        "huge": small_zip(dict_of((b"w", tensor(0, 1, (2**30, 2**30, 2**30), (0, 0, 0)))), [f32[:4]]),
        "nine_dims": small_zip(dict_of((b"w", tensor(0, 1, (1,) * 9, (1,) * 9))), [f32[:4]]),
        "itself": small_zip(b"\x80\x02}q\x00" + key(b"a") + b"h\x00s.", []),
        "again": small_zip(b"\x80\x02]" + b"q\x00(h\x00h\x00h\x00h\x00e.", []),
        "laughs": small_zip(b"\x80\x02" + laughs + b".", []),
        "twice": small_zip(dict_of((b"a.b", whole), (b"a", b"}" + key(b"b") + whole + b"s")), [f32]),
        "model": small_zip(
            dict_of(
                (b"model", b"}" + key(b"w") + whole + b"s"),
                (b"epoch", b"K\x03"),
                (b"lr", b"G" + struct.pack(">d", 0.1)),
            ),
            [f32],
        ),
        "system": small_zip(b"\x80\x02cos\nsystem\n" + key(b"touch executed") + b"\x85R.", []),
        "build": small_zip(b"\x80\x02ccollections\nOrderedDict\n)R}" + key(b"_metadata") + b"}sb.", []),
        "protocol_4": small_zip(
            b"\x80\x04\x95\x30\0\0\0\0\0\0\0}\x94\x8c\x01a\x8c\x0bcollections\x94\x8c\x0bOrderedDict\x93)Rs.",
            [],
        ),
        "opcode": small_zip(b"\x80\x02}\x81.", []),
        "marks": small_zip(b"\x80\x02((((t0u.", []),
        "empty_pickle": small_zip(b"", []),
        "compressed": small_zip(dict_of((b"w", whole)), [f32 * 9], zipfile.ZIP_DEFLATED),
        "no_entries": small_zip(b"", [])[-22:],
    }
    row = io.BytesIO()
    torch.save({"w": counting(2, 3), "v": counting(2, 3)[1]}, row, _use_new_zipfile_serialization=False)
    files["before_1_6"] = row.getvalue()
    real = io.BytesIO()
    torch.save(weights, real)
    files["real"] = real.getvalue()
    for name, data in files.items():
        with open(os.path.join(CORPUS, name), "wb") as f:
            f.write(data)


def flat(value, prefix=""):
    """Names as docs/weights.md has them."""
    if torch.is_tensor(value):
        return {prefix or "tensor": value.detach()}
    out = {}
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value) if isinstance(value, (list, tuple)) else ()
    )
    for k, v in items:
        out.update(flat(v, f"{prefix}.{k}" if prefix else str(k)))
    return out


def same(got, want):
    assert got.keys() == want.keys(), (sorted(got), sorted(want))
    for name, tensor in want.items():
        tensor = tensor.contiguous().clone()
        assert got[name].dtype == tensor.dtype and got[name].shape == tensor.shape, name
        assert (
            got[name].numpy(force=True).tobytes() == tensor.numpy().tobytes()
            if tensor.dtype != torch.bfloat16
            else torch.equal(got[name].view(torch.int16), tensor.view(torch.int16))
        ), name


def check(lockstep, files):
    done = 0
    for path in files:
        try:
            value = torch.load(path, weights_only=True, map_location="cpu")
        except Exception as error:  # PyTorch refuses it too
            value = error
        with tempfile.TemporaryDirectory() as folder:
            out = [os.path.join(folder, "out" + end) for end in (".safetensors", ".pt")]
            results = [
                subprocess.run([lockstep, "export", path, "--to", o], capture_output=True, text=True)
                for o in out
            ]
            if any(r.returncode for r in results):
                print(f"refused  {path}\n         {results[0].stderr.strip()}")
                continue
            if isinstance(value, Exception):
                print(f"read     {path}, which torch.load(weights_only=True) refuses")
                continue
            for wrapper in ("model_state_dict", "state_dict", "model"):
                if isinstance(value, dict) and isinstance(value.get(wrapper), dict):
                    value = value[wrapper]
                    break
            want = flat(value)
            same(load_file(out[0]), want)
            for mmap in (False, True):
                got = torch.load(out[1], weights_only=True, mmap=mmap)
                assert type(got) is OrderedDict and list(got) == list(want)
                same(got, want)
            done += 1
            print(f"same     {path} ({len(want)} tensors)")
    print(f"{done} of {len(files)} files: the same bits through both formats")
    sys.exit(done == 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        make()
    elif len(sys.argv) > 3 and sys.argv[1] == "check":
        check(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(__doc__)
