"""Trainers and predictors of this process."""

import ctypes
import traceback

import numpy as np

from ._arrays import as_fields, dtype_of, named, shape_of, tensor_of
from ._graph import Graph
from ._library import Error, build_function, call, constants, default_of, fill, library, struct


class Step:
    """What a step gave: loss, samples that count, norm of the gradient (-1: not clipped), skipped or not,
    seconds."""

    def __init__(self, c):
        self.loss, self.count, self.grad_norm, self.skipped, self.seconds = (
            c.loss,
            c.count,
            c.grad_norm,
            c.skipped,
            c.seconds,
        )

    def __repr__(self):
        return "Step(loss=%.6g, count=%d)" % (self.loss, self.count)


class Trainer:
    """A model of one's own, trained in this process.

    `build(g, batch)` builds the model for `batch` samples with the methods of `g` (Graph). Options are
    members of ls_trainer_opts (lockstep/trainer.h) by their names; those of a struct inside are a dict:

        t = lockstep.Trainer(build, micro_batch=64, optimizer={"kind": "adamw", "weight_decay": 0.01})
        losses = t.fit({"x": x, "y": y}, epochs=10, lr=1e-3)
    """

    def __init__(self, build, *, seed=0, **options):
        self._handle, self._error, self._keep, self._types = ctypes.c_void_p(), None, [], {}
        made = default_of("ls_trainer_opts")
        made.padding = True
        fill(made, options, self._keep)
        self._batch, self._builder = made.micro_batch * made.micro_batches, build_function(self._build(build))
        try:
            library.ls_trainer_create_with(
                ctypes.byref(self._handle), self._builder, None, ctypes.addressof(made)
            )
        except Error:
            if self._error:
                raise self._error from None
            raise
        call("ls_trainer_init", self._handle, seed)

    def _build(self, build):
        def called(graph, _, batch):
            try:
                g = Graph(graph)
                build(g, batch)
                self._types = g._inputs
                return library._handle.ls_graph_finish(ctypes.c_void_p(graph))
            except Error as error:
                return error.status
            except BaseException as error:
                self._error = error
                text = traceback.format_exc(limit=-1).strip().splitlines()[-1]
                library._handle.ls_fail(constants["LS_E_ARG"], b"%s", ctypes.c_char_p(text.encode()))
                return constants["LS_E_ARG"]

        return called

    def __del__(self):
        if getattr(self, "_handle", None):
            library.ls_trainer_destroy(ctypes.byref(self._handle))

    def step(self, lr, **arrays):
        """One step on these samples, up to micro_batch * micro_batches of them."""
        fields, n = as_fields(arrays, self._types)
        result = struct("ls_step_result")()
        for name, values in fields.items():
            library.ls_trainer_put(self._handle, name.encode(), ctypes.byref(tensor_of(values)), 0)
        call("ls_trainer_run", self._handle, n, lr, ctypes.byref(result))
        return Step(result)

    def fit(self, arrays, *, epochs, lr, shuffle=True, seed=0, first_epoch=0):
        """Trains `epochs` passes over the arrays; returns the mean loss of each. `lr` is a number, or a
        function of the epoch. The order of an epoch follows from `seed` and its number, of which the first is
        `first_epoch`.
        """
        fields, n = as_fields(arrays, self._types)
        if not n:
            raise ValueError("no samples to train on")
        losses = []
        for epoch in range(first_epoch, first_epoch + epochs):
            order = np.random.default_rng([seed, epoch]).permutation(n) if shuffle else np.arange(n)
            total = count = 0
            for first in range(0, n, self._batch):
                rows = order[first : first + self._batch]
                step = self.step(
                    lr(epoch) if callable(lr) else lr,
                    **{name: values[rows] for name, values in fields.items()}
                )
                if not step.skipped:
                    total, count = total + step.loss * step.count, count + step.count
            losses.append(total / count if count else float("nan"))
        return losses

    def fit_scaling(self, arrays):
        """Finds the scaling of the fields that the model scales, over all samples."""
        self._with_set(arrays, lambda set: library.ls_trainer_fit(self._handle, set))

    def evaluate(self, arrays):
        """{name: value}: "loss", and the metrics that the model measures, over all samples."""
        n = ctypes.c_int()
        metrics = (struct("ls_metric") * 256)()
        self._with_set(
            arrays,
            lambda set: library.ls_trainer_evaluate(
                self._handle, set, ctypes.addressof(metrics), 256, ctypes.byref(n)
            ),
        )
        return {metrics[i].name.decode(): metrics[i].value for i in range(n.value)}

    def predictor(self, outputs=None):
        """A Predictor with the weights as they are now."""
        return Predictor(self, outputs=outputs)

    def parameters(self):
        """{name: array} of the parameters and of the model's buffers: copies."""
        types = {
            **named(library.ls_trainer_parameters, self._handle),
            **named(library.ls_trainer_buffers, self._handle),
        }
        made = {}
        for name, type in types.items():
            array = np.empty(shape_of(type), dtype_of(type))
            library.ls_trainer_get(self._handle, name.encode(), ctypes.byref(tensor_of(array)))
            made[name] = array
        return made

    def set_parameters(self, arrays):
        """Sets parameters and buffers from arrays of their shapes; the optimizer's state stays."""
        for name, values in arrays.items():
            library.ls_trainer_set(self._handle, name.encode(), ctypes.byref(tensor_of(np.asarray(values))))

    def load(self, path):
        """Parameters from weights of any kind that Lockstep reads (docs/weights.md)."""
        weights = ctypes.c_void_p()
        library.ls_weights_open(ctypes.byref(weights), str(path).encode())
        try:
            library.ls_trainer_load(self._handle, weights)
        finally:
            library.ls_weights_close(ctypes.byref(weights))

    def save(self, path):
        """One .safetensors file of the parameters and buffers."""
        library.ls_trainer_save(self._handle, str(path).encode())

    def save_checkpoint(self, folder):
        """All state, the optimizer's too, as a new checkpoint folder."""
        library.ls_trainer_save_checkpoint(self._handle, str(folder).encode())

    def load_checkpoint(self, folder):
        library.ls_trainer_load_checkpoint(self._handle, str(folder).encode())

    def _with_set(self, arrays, use):
        fields, n = as_fields(arrays, self._types)
        if not n:
            raise ValueError("no samples")
        set = ctypes.c_void_p()
        try:
            for name, values in fields.items():
                library.ls_dataset_put(ctypes.byref(set), name.encode(), ctypes.byref(tensor_of(values)))
            use(set)
        finally:
            library.ls_dataset_close(ctypes.byref(set))


class Predictor:
    """Predictions of a trainer, of a run (its latest checkpoint; best=True: its best) or of a checkpoint: arrays in, {output:
    array} out.

    p = lockstep.Predictor("runs/flow")
    y = p(x=rows)["y"]
    """

    def __init__(self, source, *, outputs=None, **options):
        self._handle, keep = ctypes.c_void_p(), []
        made = default_of("ls_predictor_opts")
        if outputs is not None:
            options["outputs"] = outputs if isinstance(outputs, str) else " ".join(outputs)
        fill(made, options, keep)
        if isinstance(source, Trainer):
            library.ls_predictor_of_with(ctypes.byref(self._handle), source._handle, ctypes.addressof(made))
        else:
            path = getattr(source, "path", source)
            library.ls_predictor_open_with(
                ctypes.byref(self._handle), str(path).encode(), ctypes.addressof(made)
            )

    def __del__(self):
        if getattr(self, "_handle", None):
            library.ls_predictor_destroy(ctypes.byref(self._handle))

    @property
    def inputs(self):
        """{name: shape of a row}"""
        return {name: shape_of(t)[1:] for name, t in named(library.ls_predictor_inputs, self._handle).items()}

    @property
    def outputs(self):
        return {
            name: shape_of(t)[1:] for name, t in named(library.ls_predictor_outputs, self._handle).items()
        }

    def __call__(self, *given, **arrays):
        inputs = named(library.ls_predictor_inputs, self._handle)
        if given:
            raise TypeError("name the arrays: p(%s)" % ", ".join("%s=array" % name for name in inputs))
        fields, n = as_fields(arrays, {name: dtype_of(type) for name, type in inputs.items()})
        for name, values in fields.items():
            library.ls_predictor_put(self._handle, name.encode(), ctypes.byref(tensor_of(values)))
        library.ls_predictor_run(self._handle, n)
        made = {}
        for name, type in named(library.ls_predictor_outputs, self._handle).items():
            shape = shape_of(type)
            array = np.empty((n * shape[0],) + shape[1:], dtype_of(type))
            library.ls_predictor_get(self._handle, name.encode(), ctypes.byref(tensor_of(array)))
            made[name] = array
        return made
