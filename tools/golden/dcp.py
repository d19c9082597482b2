#!/usr/bin/env python3
"""Directories of torch.distributed.checkpoint for the tests, and the live comparison with it.

    python tools/golden/dcp.py make            # tests/golden/dcp_*, what is in them as .safetensors, and
    tests/fuzz/corpus/dcp
    python tools/golden/dcp.py check LOCKSTEP  # what PyTorch saves on 1, 2 and 4 ranks is read, what Lockstep
    exports is loaded on 1, 2 and 3

`check` compares bit for bit."""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pt import GOLDEN, ROOT, counting  # noqa: E402

CORPUS = os.path.join(ROOT, "tests", "fuzz", "corpus", "dcp")
warnings.filterwarnings("ignore")


def rank(index, world, port_file, work, arguments):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", rank=index, world_size=world, init_method="file://" + port_file)
    torch.manual_seed(0)
    work(world, *arguments)
    dist.destroy_process_group()


def on_ranks(world, work, *arguments):
    """work(world, ...) on so many ranks; with world 0 in this process, without a process group."""
    if world == 0:
        torch.manual_seed(0)
        return work(0, *arguments)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank, (world, os.path.join(folder, "meet"), work, arguments), world)


# ---- make


def layouts(world):
    """One tensor of every way to lie on four ranks, and what is not a tensor."""
    line, square = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))
    state = {
        "rows": distribute_tensor(counting(5, 3), line, [Shard(0)]),  # 2, 2, 1 rows and none
        "columns": distribute_tensor(counting(3, 8, dtype=torch.bfloat16), line, [Shard(1)]),
        "both": distribute_tensor(counting(4, 6), square, [Shard(0), Shard(1)]),
        "hybrid": distribute_tensor(counting(4, 2, dtype=torch.float64), square, [Replicate(), Shard(0)]),
        "middle": distribute_tensor(counting(2, 4, 3), line, [Shard(1)]),
        "plain": counting(2, 2).t(),
        "count": torch.tensor(7, dtype=torch.int64),
        "empty": torch.empty(0, 4),
    }
    return state


def full(state):
    return {
        k: (v.full_tensor() if isinstance(v, DTensor) else v).contiguous().clone() for k, v in state.items()
    }


def save_layouts(world, folder, twin):
    state = layouts(world)
    wanted = full(state)
    dcp.save(
        {"model": state, "epoch": 3, "lr": 0.5, "notes": ["one", (2, None)], "other": torch.ones(2)},
        checkpoint_id=folder,
    )
    if dist.get_rank() == 0:
        save_file(wanted, twin, {"format": "pt"})
        os.chmod(twin, 0o644)


class Tiny(torch.nn.Module):
    def __init__(self, width=16, out=8):
        super().__init__()
        self.net1 = torch.nn.Linear(16, width)
        self.relu = torch.nn.ReLU()
        self.net2 = torch.nn.Linear(width, out)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def save_toy(world, folder, kind, twin):
    """Tutorial 5's model after a step, and its whole weights beside it."""
    model = Tiny()
    if kind == "fsdp2":
        fully_shard(model)
    elif kind == "hybrid":
        fully_shard(
            model, mesh=init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
        )
    elif kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.rand(8, 16)).sum().backward()
    optimizer.step()
    weights, state = get_state_dict(model, optimizer)
    wanted = full(weights)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    if not world or dist.get_rank() == 0:
        save_file(wanted, twin, {"format": "pt"})
        os.chmod(twin, 0o644)


def resume_adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)


def resume_steps(model, optimizer, first, n, data, world=0):
    """Steps of 6 samples of the MLP's golden data, dealt over the ranks in turn; the losses of the whole
    batch."""
    x, labels = data
    losses = []
    for step in range(first, first + n):
        mine = torch.arange(6 * step, 6 * step + 6)[dist.get_rank() if world else 0 :: world or 1]
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[mine]), labels[mine])
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        if world:
            dist.all_reduce(loss)
            loss /= world
        losses.append(loss)
    return torch.stack(losses)


def resume_data():
    from make import normalize, values

    images = (values("mlp.images", (30, 1, 4, 4), 128) + 128).to(torch.uint8)
    return normalize(images, torch.float64), (values("mlp.labels", (30,), 4096) + 4096).long() % 5


def resume_model():
    from make import MLP, fill

    return fill(MLP(torch.nn.functional.gelu).to(torch.float64))


def save_resume(world, folder, twin):
    """The small MLP after 3 steps under FSDP2, saved as the tutorial does; then 5 more, whose losses and
    weights are kept."""
    model, data = resume_model(), resume_data()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = resume_adamw(model.parameters())
    resume_steps(model, optimizer, 2, 3, data, world)
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    out = {"losses": resume_steps(model, optimizer, 0, 5, data, world)}
    out |= {"weight." + k: v for k, v in full(get_state_dict(model, optimizer)[0]).items()}
    if dist.get_rank() == 0:
        save_file(out, twin, {"format": "pt"})
        os.chmod(twin, 0o644)


def save_resume_otherwise():
    """The same in one process, with other names: an AppState with plain state dicts, which number the
    parameters; and beside another model, in flat names."""
    model, data = resume_model(), resume_data()
    optimizer = resume_adamw(model.parameters())
    resume_steps(model, optimizer, 2, 3, data)
    dcp.save(
        {"app": {"model": model.state_dict(), "optim": optimizer.state_dict()}},
        checkpoint_id="dcp_resume_app",
        no_dist=True,
    )
    weights, state = get_state_dict(
        model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True)
    )
    dcp.save(
        {"trainer": {"model": weights, "optimizer": state}, "ema": {"model": {"decay": torch.ones(1)}}},
        checkpoint_id="dcp_resume_flat",
        no_dist=True,
    )


def path(name):
    return os.path.join(GOLDEN, "dcp_" + name)


def clean(folder):
    """A directory again, with modes and an index that do not tell where it was made."""
    for name in os.listdir(folder):
        file = os.path.join(folder, name)
        os.chmod(file, 0o644)
        if os.path.getsize(file) == 0:
            os.remove(file)


DIRECTORIES = ("layouts", "toy", "root", "app", "resume", "resume_app", "resume_flat")


def make():
    for name in DIRECTORIES:
        shutil.rmtree(path(name), ignore_errors=True)
    os.chdir(GOLDEN)  # the index tells the directory's name
    on_ranks(4, save_layouts, "dcp_layouts", path("layouts.safetensors"))
    on_ranks(2, save_toy, "dcp_toy", "fsdp2", path("toy.safetensors"))
    state = {"model.weight": counting(2, 3), "bias": counting(3)}
    dcp.save(state, checkpoint_id="dcp_root", no_dist=True)
    dcp.save({"app": {"model": state, "step": 1}}, checkpoint_id="dcp_app", no_dist=True)
    save_file(state, path("root.safetensors"), {"format": "pt"})
    os.chmod(path("root.safetensors"), 0o644)
    on_ranks(2, save_resume, "dcp_resume", path("resume.safetensors"))
    save_resume_otherwise()
    for name in DIRECTORIES:
        clean(path(name))
    corpus()


def corpus():
    """Indices: real ones, and small ones whose every byte is changed in turn."""
    os.makedirs(CORPUS, exist_ok=True)
    for name in ("root", "app", "resume_app"):
        shutil.copy(os.path.join(path(name), ".metadata"), os.path.join(CORPUS, name))
    text = lambda s: b"X" + struct.pack("<I", len(s)) + s
    md = b"ctorch.distributed.checkpoint.metadata\n"
    new = lambda name, *state: name + b"\n)\x81}(" + b"".join(text(k) + v for k, v in state) + b"ub"
    size = lambda *dims: b"ctorch\nSize\n((" + b"".join(b"J" + struct.pack("<i", d) for d in dims) + b"ttR"
    chunk = lambda start, sizes: new(
        md + b"ChunkStorageMetadata", (b"offsets", size(*start)), (b"sizes", size(*sizes))
    )
    properties = md + b"TensorProperties\n)\x81(ctorch\nfloat32\ntb"
    tensor = lambda sizes, *chunks: new(
        md + b"TensorStorageMetadata",
        (b"properties", properties),
        (b"size", size(*sizes)),
        (b"chunks", b"](" + b"".join(chunks) + b"e"),
    )
    place = lambda name, start, file=b"a": (
        new(md + b"MetadataIndex", (b"fqn", text(name)), (b"offset", size(*start)))
        + new(
            b"ctorch.distributed.checkpoint.filesystem\n_StorageInfo",
            (b"relative_path", text(file)),
            (b"offset", b"K\0"),
            (b"length", b"K\1"),
        )
    )
    index = lambda tensors, places, ways=b"": (
        b"\x80\2"
        + new(
            md + b"Metadata",
            (b"state_dict_metadata", b"}(" + tensors + b"u"),
            (b"planner_data", b"}(" + ways + b"u"),
            (b"storage_data", b"}(" + places + b"u"),
        )
        + b"."
    )
    halves = tensor((4, 2), chunk((0, 0), (2, 2)), chunk((2, 0), (2, 2)))
    files = {
        "halves": index(text(b"w") + halves, place(b"w", (0, 0)) + place(b"w", (2, 0), b"b")),
        "gap": index(text(b"w") + tensor((4,), chunk((0,), (3,))), place(b"w", (0,))),
        "overlap": index(
            text(b"w") + tensor((4,), chunk((0,), (3,)), chunk((1,), (1,))),
            place(b"w", (0,)) + place(b"w", (1,)),
        ),
        "again": index(
            text(b"w") + tensor((4,), chunk((0,), (4,)) + b"q\1" + b"h\1" * 2000), place(b"w", (0,))
        ),
        "outside": index(text(b"w") + tensor((4,), chunk((2,), (3,))), place(b"w", (2,))),
        "huge": index(
            text(b"w") + tensor((2**30,) * 3, chunk((0,) * 3, (2**30,) * 3)), place(b"w", (0,) * 3)
        ),
        "nowhere": index(text(b"w") + tensor((1,), chunk((0,), (1,))), place(b"v", (0,))),
        "elsewhere": index(text(b"w") + tensor((1,), chunk((0,), (1,))), place(b"w", (0,), b"../a")),
        "under": index(
            text(b"model.w") + tensor((1,), chunk((0,), (1,))),
            place(b"model.w", (0,)),
            text(b"model.w") + b"(" + text(b"model") + text(b"w") + b"t",
        ),
        "scalar": index(text(b"w") + tensor((), chunk((), ())), place(b"w", ())),
        "twice": index(
            text(b"w") + tensor((1,), chunk((0,), (1,))) + text(b"w") + tensor((1,), chunk((0,), (1,))),
            place(b"w", (0,)),
        ),
        "system": b"\x80\2cposix\nsystem\n" + text(b"touch executed") + b"\x85R.",
        "state_twice": b"\x80\2" + md + b"Metadata\n)\x81}b}b.",
        "itself": b"\x80\2" + md + b"Metadata\n)\x81q\0}(" + text(b"state_dict_metadata") + b"h\0ub.",
        "empty": b"",
    }
    for name, data in files.items():
        with open(os.path.join(CORPUS, name), "wb") as f:
            f.write(data)


# ---- check


def same(got, want, what):
    assert got.keys() == want.keys(), (what, sorted(got), sorted(want))
    for name in want:
        assert got[name].dtype == want[name].dtype and torch.equal(got[name], want[name]), (what, name)


def run(*words):
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 0, (words, result.stderr)


class Mlp(torch.nn.Module):
    """The recipe's, with the names that Lockstep gives it."""

    def __init__(self, shapes):
        super().__init__()
        linear = lambda name: torch.nn.Linear(*reversed(shapes[name + ".weight"]))
        self.layers = torch.nn.ModuleList([linear("layers.0")])
        self.head = linear("head")

    def forward(self, x):
        return self.head(torch.relu(self.layers[0](x)))


class AppState(Stateful):
    """As tutorial 1 has it."""

    def __init__(self, model, optimizer=None):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        weights, state = get_state_dict(self.model, self.optimizer)
        return {"model": weights, "optim": state}

    def load_state_dict(self, state):
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"]
        )


def load_ours(world, folder, checkpoint, kind, app=False):
    """dcp.load into a model and an optimizer that are laid out otherwise, then everything whole again."""
    want, moments = load_file(os.path.join(checkpoint, "model.safetensors")), load_file(
        os.path.join(checkpoint, "optimizer.safetensors")
    )
    model = Mlp({k: v.shape for k, v in want.items()})
    if world:
        fully_shard(model)
    optimizer = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind](
        model.parameters(), lr=0.5, **({"momentum": 0.1} if kind == "sgd" else {})
    )
    if app:
        dcp.load({"app": AppState(model, optimizer)}, checkpoint_id=folder)
    else:
        weights, state = get_state_dict(model, optimizer)
        both = {"model": weights, "optimizer": state}
        dcp.load(both, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=both["model"], optim_state_dict=both["optimizer"])
    weights, state = get_state_dict(model, optimizer)
    same(full(weights), want, "weights")
    got = {"step": moments["step"]}
    for name, values in state["state"].items():
        for key, value in full(values).items():
            if key == "step":
                assert value.item() == moments["step"].item(), (name, value)
            else:
                got[key + "." + name] = value
    same(got, moments, "optimizer")
    group = optimizer.param_groups[0]
    assert group["lr"] == 0.01 and group["weight_decay"] == 0.25, group
    assert (
        kind == "sgd"
        and group["momentum"] == 0.75
        and group["nesterov"]
        or kind != "sgd"
        and group["betas"] == (0.5, 0.75)
    ), group


def load_toy(world, folder, checkpoint):
    """Tutorial 5's own loading of what a program in C has saved, and a step after it."""
    model = Tiny()
    if world:
        fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    dcp.load({"app": AppState(model, optimizer)}, checkpoint_id=folder)
    weights, state = get_state_dict(model, optimizer)
    same(full(weights), load_file(checkpoint + "/model.safetensors"), "weights of a program")
    moments = load_file(checkpoint + "/optimizer.safetensors")
    for name, values in state["state"].items():
        for key, value in full(values).items():
            want = moments["step"].float() if key == "step" else moments[key + "." + name]
            assert torch.equal(value, want), (key, name)
    assert optimizer.param_groups[0]["lr"] == 0.1 and optimizer.param_groups[0]["betas"] == (0.9, 0.999)
    model(torch.rand(8, 16)).sum().backward()
    optimizer.step()


def check_program(lockstep, program):
    """A checkpoint of examples/checkpoint_any_ranks.c, and a directory of PyTorch in another shape."""
    run(program, "save", "toy", "4")
    app = "--format", "dcp", "--optimizer", "--prefix", "app", "--ranks", "8"
    run(lockstep, "export", "toy", "--to", "toy-app/", *app)
    for world in (0, 2):
        on_ranks(world, load_toy, "toy-app", "toy")
    run(lockstep, "export", "toy-app", "--to", "toy-plain/", "--format", "dcp", "--optimizer")
    both = {"model": Tiny().state_dict()}
    dcp.load(both, checkpoint_id="toy-plain")
    same(both["model"], load_file("toy/model.safetensors"), "from directory to directory")
    print("loaded   what examples/checkpoint_any_ranks.c saved, with its Adam")


def check(lockstep):
    lockstep = os.path.abspath(lockstep)
    program = os.path.join(os.path.dirname(lockstep), "examples", "checkpoint_any_ranks")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for world, kind in (
            (0, "plain"),
            (1, "fsdp2"),
            (2, "fsdp2"),
            (2, "ddp"),
            (4, "fsdp2"),
            (4, "hybrid"),
        ):
            name = f"{kind}{world}"
            on_ranks(world, save_toy, name, kind, name + ".wanted")
            run(lockstep, "export", name, "--to", name + ".safetensors")
            same(load_file(name + ".safetensors"), load_file(name + ".wanted"), name)
            print(f"read     what {kind} saved on {world or 'no'} ranks")
        for kind, settings in (
            ("adamw", ["optimizer.betas=[0.5, 0.75]"]),
            ("adam", ["optimizer.betas=[0.5, 0.75]"]),
            ("sgd", ["optimizer.momentum=0.75", "optimizer.nesterov=true"]),
        ):
            sets = [
                "optimizer.type=" + kind,
                "optimizer.lr=0.01",
                "optimizer.weight_decay=0.25",
                "run.name=" + kind,
                "model.hidden=[9]",
                "data.type=shapes",
                "train.steps=5",
            ] + settings
            run(lockstep, "train", "mlp-mnist", *[w for s in sets for w in ("--set", s)])
            run(
                lockstep,
                "export",
                "runs/" + kind,
                "--to",
                kind + "/",
                "--format",
                "dcp",
                "--optimizer",
                "--ranks",
                "3" if kind == "adam" else "1",
            )
            checkpoint = f"runs/{kind}/checkpoints/latest"
            for world in (0, 1, 2, 3):
                on_ranks(world, load_ours, kind, checkpoint, kind)
            app = kind + "-app"
            names = "--format", "dcp", "--optimizer", "--prefix", "app"
            run(lockstep, "export", "runs/" + kind, "--to", app + "/", *names)
            for world in (0, 2):
                on_ranks(world, load_ours, app, checkpoint, kind, True)
            dcp_to_torch_save(kind, kind + ".pt")
            whole = torch.load(kind + ".pt", weights_only=True)
            same(whole["model"], load_file(checkpoint + "/model.safetensors"), "dcp_to_torch_save")
            assert list(whole["optimizer"]) == ["state", "param_groups"], list(whole["optimizer"])
            run(lockstep, "export", kind, "--to", kind + ".safetensors")
            same(load_file(kind + ".safetensors"), whole["model"], "there and back")
            print(f"loaded   what export writes of {kind}, on no, 1, 2 and 3 ranks")
        if os.path.exists(program):
            check_program(lockstep, program)


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        make()
    elif len(sys.argv) == 3 and sys.argv[1] == "check":
        check(sys.argv[2])
    else:
        sys.exit(__doc__)
