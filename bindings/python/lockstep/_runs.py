"""Training by a recipe, with the command, and reading runs."""

import ctypes
import json
import os
import subprocess

import numpy as np

from ._arrays import as_fields
from ._command import command
from ._library import Error, constants, library
from ._train import Predictor


class Run:
    """A run's folder, of `lockstep train` or of a program with ls_run; while it runs, too."""

    def __init__(self, path):
        self.path = str(path)
        if not os.path.isdir(self.path):
            raise FileNotFoundError("%s: no such run" % self.path)

    def __repr__(self):
        return "Run(%r, %s)" % (self.path, self.state)

    @property
    def result(self):
        """result.json as a dict."""
        with open(os.path.join(self.path, "result.json")) as file:
            return json.load(file)

    @property
    def state(self):
        """ "running", "finished", "failed", "stopped", ..."""
        return self.result["state"]

    def metrics(self, kind="step"):
        """The rows of metrics.jsonl of one kind ("step", "eval", "epoch", "checkpoint") as {key: array}.
        Where a row lacks a key there is NaN, or None among texts. Of a step that a restart repeated, the last
        row counts.
        """
        rows, kinds = {}, dict.fromkeys(("step", "eval", "epoch", "checkpoint"))
        with open(os.path.join(self.path, "metrics.jsonl")) as file:
            for line in file:
                if not line.endswith("\n"):
                    break  # it is being written
                row = json.loads(line)
                kinds[row.get("kind")] = None
                if row.get("kind") == kind:
                    rows.pop(row.get("step", len(rows)), None)
                    rows[row.get("step", len(rows))] = row
        if kind not in kinds:
            raise ValueError("no rows of kind %r; there are %s" % (kind, ", ".join(kinds)))
        keys = dict.fromkeys(key for row in rows.values() for key in row if key != "kind")
        return {key: _column([row.get(key) for row in rows.values()]) for key in keys}

    def checkpoint(self, best=False):
        """Path of the latest or of the best checkpoint."""
        path = os.path.join(self.path, "checkpoints", "best" if best else "latest")
        if not os.path.exists(path):
            raise FileNotFoundError("%s: the run has no such checkpoint" % path)
        return os.path.realpath(path)

    def predictor(self, best=False, **options):
        """Of the latest checkpoint, or of the best one: with best=True, and after early stopping."""
        return Predictor(self.path, best=best, **options)


def _column(values):
    if any(isinstance(value, (str, list, dict)) for value in values):
        return np.array(values, dtype=object)
    if all(isinstance(value, int) for value in values):
        return np.array(values)
    return np.array([float("nan") if value is None else value for value in values], dtype=float)


def train(recipe, *, train=None, eval=None, name=None, storage=None, set={}, allow_change=False, quiet=True):
    """`lockstep train` in a process of its own; returns the Run. A failure is Error with the command's
    message.

    `recipe` is a path, the name of a bundled recipe, or a dict of keys as in a recipe. `train` and `eval` are
    dicts of arrays, one for each field of the model, which are written as .npy files to the folder
    STORAGE/NAME.arrays; without `eval` nothing is evaluated. `set` changes keys: {"optimizer.lr": 1e-3}. As
    with the command, the same call continues a run that was stopped, and is refused with other arrays or
    settings unless `allow_change` is true."""
    sets = dict(set)
    if name is not None:
        sets["run.name"] = name
    if storage is not None:
        sets["run.storage"] = str(storage)
    given = (("train", train), ("eval", eval))
    arrays = {split: as_fields(fields)[0] for split, fields in given if fields is not None}
    for split, given in arrays.items():
        sets["data.type"] = "arrays"
        sets["data." + split] = {field: "%s_%s.npy" % (split, field) for field in given}
    if train is not None and eval is None:
        sets.setdefault("eval.every_epochs", -1)
    name, storage = _where(recipe, _words(sets))
    if not allow_change and os.path.exists(os.path.join(storage, name, "checkpoints", "latest")):
        _check_same(os.path.join(storage, name), arrays.get("train", {}))
    for split, given in arrays.items():
        sets["data." + split] = _write(os.path.join(storage, name + ".arrays"), split, given)
    if isinstance(recipe, dict):
        os.makedirs(storage, exist_ok=True)
        sets["run.name"] = name
        path = os.path.join(storage, name + ".recipe.yaml")
        with open(path, "w") as file:
            json.dump(recipe, file, indent=1)  # which is YAML
        recipe = path
    words = [command(), "train", str(recipe), "--no-progress"]
    words += ["-q"] * bool(quiet) + ["--allow-change"] * bool(allow_change)
    for word in _words(sets):
        words += ["--set", word]
    done = subprocess.run(words, stderr=subprocess.PIPE if quiet else None, text=True)
    if done.returncode:
        status = constants[
            (
                "LS_E_STOPPED"
                if done.returncode == 75
                else "LS_E_USAGE" if done.returncode == 2 else "LS_E_INTERNAL"
            )
        ]
        message = (done.stderr or "").strip().replace("--allow-change", "allow_change=True")
        raise Error(status, message or "lockstep train ended with status %d" % done.returncode)
    return Run(os.path.join(storage, name))


def _words(sets):
    return ["%s=%s" % (key, json.dumps(value)) for key, value in sets.items()]


def _where(recipe, words):
    """Name and storage of a recipe's run."""
    handle = ctypes.c_void_p()
    list = (ctypes.c_char_p * max(len(words), 1))(*[word.encode() for word in words])
    if isinstance(recipe, dict):
        text = json.dumps(recipe).encode()
        library.ls_recipe_load_text(
            ctypes.byref(handle), text, len(text), b"run", len(words), ctypes.addressof(list)
        )
    else:
        library.ls_recipe_load(ctypes.byref(handle), str(recipe).encode(), len(words), ctypes.addressof(list))
    try:
        found = []
        for key in (b"run.name", b"run.storage"):
            text = library.ls_recipe_value(handle, key)
            found.append(ctypes.string_at(text).decode().strip('"'))
            _free(text)
        return found
    finally:
        library.ls_recipe_destroy(ctypes.byref(handle))


_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = [ctypes.c_void_p], None


def _check_same(run, arrays):
    """The arrays that a run was trained with stay, unless the caller wants others."""
    for name, values in arrays.items():
        path = os.path.join(run + ".arrays", "train_%s.npy" % name)
        old = np.load(path) if os.path.exists(path) else values
        if not np.array_equal(old, values, equal_nan=values.dtype.kind == "f"):
            raise ValueError(
                "%r differs from the array that %s was trained with: give another name for a new run, or "
                "continue with the change, allow_change=True" % (name, run)
            )


def _write(folder, split, arrays):
    """The files of the arrays, and what data.train and data.eval say of them."""
    os.makedirs(folder, exist_ok=True)
    names = {}
    for name, values in arrays.items():
        path = os.path.abspath(os.path.join(folder, "%s_%s.npy" % (split, name)))
        np.save(path + ".part.npy", values)
        os.replace(path + ".part.npy", path)
        names[name] = path
    return names
