"""Lockstep from Python: numpy arrays in and out, over liblockstep (docs/python.md).

import lockstep, numpy as np
t = lockstep.Trainer(build, micro_batch=64)          # a model of one's own
t.fit({"x": x, "y": y}, epochs=10, lr=1e-3)
run = lockstep.train("flow.yaml", train={"x": x, "y": y}, eval={"x": x2, "y": y2})   # or a recipe
run.predictor()(x=rows)["y"]
"""

from ._arrays import load, save
from ._graph import Graph, Value
from ._command import command
from ._library import ABI, Error, library
from ._runs import Run, train
from ._train import Predictor, Step, Trainer

__version__ = library.version
__all__ = [
    "ABI",
    "Error",
    "Graph",
    "Predictor",
    "Run",
    "Step",
    "Trainer",
    "Value",
    "command",
    "library",
    "load",
    "save",
    "train",
]
