"""What the wheel's module does, as a user's script in a folder of its own: trains by a recipe and in the
process, predicts, reads metrics and checkpoints, and refuses with a message. Prints "fine" at the end."""

import numpy as np

import lockstep

r = np.random.default_rng(0)
w = r.normal(size=(8, 3))


def rows(n):
    x = r.normal(3, 2, size=(n, 8)).astype("float32")
    return {"x": x, "y": 1000 + 100 * np.tanh(0.1 * x @ w)}


def refused(message, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except (lockstep.Error, AttributeError, TypeError, ValueError, FileNotFoundError) as error:
        assert message in str(error), str(error)
        return error
    raise AssertionError("not refused: " + message)


train, evaluated = rows(500), rows(100)
recipe = {
    "model": {"type": "mlp", "inputs": {"x": [8]}, "outputs": {"y": [3]}, "hidden": [16], "act": "gelu"},
    "loss": {"type": "mse", "of": "y"},
    "train": {"epochs": 3, "global_batch": 64, "drop_last": False},
}
run = lockstep.train(
    recipe, train=train, eval=evaluated, name="flow", storage="kept", set={"optimizer.lr": 5e-3}
)
assert run.state == "finished" and run.path == "kept/flow", run
steps, evals = run.metrics("step"), run.metrics("eval")
assert (
    steps["loss"].shape == (24,) and steps["lr"][0] == 5e-3 and list(steps["step"]) == list(range(1, 25))
), steps
assert evals["r2"][-1] > 0.3 and evals["r2"][-1] > evals["r2"][0], evals

# the same call trains a finished run on, from its checkpoint
longer = dict(recipe, train=dict(recipe["train"], epochs=4))
again = lockstep.train(
    longer, train=train, eval=evaluated, name="flow", storage="kept", set={"optimizer.lr": 5e-3}
)
assert len(again.metrics()["loss"]) == 32 and np.array_equal(again.metrics()["loss"][:24], steps["loss"])

predict = run.predictor()
assert predict.inputs == {"x": (8,)} and predict.outputs == {"y": (3,)}
y = predict(x=evaluated["x"])["y"]
rmse = np.sqrt(np.mean((y - evaluated["y"]) ** 2))
assert abs(rmse / run.metrics("eval")["rmse"][-1] - 1) < 1e-5, rmse
assert np.array_equal(predict(x=np.asfortranarray(evaluated["x"])[::2])["y"], y[::2])  # any strides
refused('no input "z"', predict, z=evaluated["x"])
refused(
    "[8], the model takes f32 [8, 8] for 8 samples; dimension 0 is the samples", predict, x=evaluated["x"][0]
)
double = evaluated["x"].astype("f8")
refused(
    "[100, 7], the model takes f32 [100, 8] for 100 samples; f32 and f64 both fit", predict, x=double[:, :7]
)

weights = lockstep.load(run.checkpoint())
assert weights["layers.0.weight"].shape == (16, 8) and weights["layers.0.weight"].dtype == np.float32
lockstep.save("copy.safetensors", weights)
assert all(
    np.array_equal(weights[name], values) for name, values in lockstep.load("copy.safetensors").items()
)

lockstep.train(recipe, train=train, name="alone", storage="kept")  # without data for an evaluation
refused('"x"', lockstep.train, recipe, train={"xx": train["x"], "y": train["y"]}, name="bad", storage="kept")
refused("did you mean 'mse'?", lockstep.train, dict(recipe, loss={"type": "msee"}), train=train, name="bad")
refused(
    "the first dimension is the samples",
    lockstep.train,
    recipe,
    train=dict(train, y=train["y"][1:]),
    name="bad",
)
refused("no such run", lockstep.Run, "kept/none")


def build(g, batch):
    x, y = g.input("x", [batch, 8]), g.input("y", [batch, 3])
    p = g.linear("last", g.gelu(g.linear("first", x, 16)), 3)
    same = -(1 - p / 2 * 2) + 1  # ops with numbers
    assert same.shape == (batch, 3) and same.dtype == "f32"
    rows = g.reshape(same, [batch * 3]) - g.reshape(y, [-1])
    g.loss("mse", rows**2, factor=1, weigh="by_element", field=None)
    g.measure_against("mae", "mae", p, y, "by_element", None)
    g.output("p", p)


small = {"x": train["x"], "y": ((train["y"] - 1000) / 100).astype("float32")}


def trainer(seed=1):
    return lockstep.Trainer(
        build, micro_batch=64, seed=seed, optimizer={"kind": "adamw", "weight_decay": 0.01}
    )


t = trainer()
losses = t.fit(small, epochs=4, lr=lambda epoch: 1e-2 / (1 + epoch))
assert losses[3] < losses[0] / 2, losses
assert losses == trainer().fit(small, epochs=4, lr=lambda epoch: 1e-2 / (1 + epoch))
first = trainer()
first.fit(small, epochs=2, lr=1e-2)
first.save_checkpoint("own")
second = trainer(seed=2)
second.load_checkpoint("own")
assert first.fit(small, epochs=1, lr=1e-2, first_epoch=2) == second.fit(
    small, epochs=1, lr=1e-2, first_epoch=2
)
p = t.predictor("p")(x=small["x"])["p"]
assert abs(t.evaluate(small)["mae"] / np.mean(np.abs(p - small["y"])) - 1) < 1e-5
parameters = t.parameters()
assert {name: values.shape for name, values in parameters.items()} == {
    "first.weight": (16, 8),
    "first.bias": (16,),
    "last.weight": (3, 16),
    "last.bias": (3,),
}
second.set_parameters(parameters)
assert np.array_equal(second.predictor()(x=small["x"])["p"], p)
t.save("own.safetensors")
second.load("own.safetensors")
refused("none.safetensors: cannot open", t.load, "none.safetensors")


def wrong(kind):
    def build(g, batch):
        x, y = g.input("x", [batch, 8]), g.input("y", [batch, 3])
        if kind == "option":
            g.linear("a", x, 3, bais=False)
        elif kind == "method":
            g.liner("a", x, 3)
        elif kind == "word":
            g.loss("l", x, 1, "by_elephant", None)
        elif kind == "loss":
            g.loss("l", x - x)
        elif kind == "array":
            x + np.ones(8)
        elif kind == "missing":
            g.linear("a", x)
        else:
            g.loss("l", x - y, 1, "by_element", None)

    return build


refused("ls_linear_opts has no member 'bais'", lockstep.Trainer, wrong("option"))
refused("a graph has no method 'liner'", lockstep.Trainer, wrong("method"))
refused("'by_elephant' is not one of ls_weigh: LS_BY_", lockstep.Trainer, wrong("word"))
refused("ls_linear_with: the argument 'out' is missing", lockstep.Trainer, wrong("missing"))
error = refused("sub(f32 [64, 8], f32 [64, 3])", lockstep.Trainer, wrong("shape"))
assert str(error).startswith("wheel.py:"), error  # the line of the script
refused("has no member 'micro_bach'", lockstep.Trainer, build, micro_bach=1)
refused(
    "the argument 'factor' is missing; it takes name, rows, factor, weigh, field",
    lockstep.Trainer,
    wrong("loss"),
)
refused("ls_trainer_opts: optimizer is a dict with some of kind,", lockstep.Trainer, build, optimizer="adamw")
refused("micro_batch is a whole number, not '32'", lockstep.Trainer, build, micro_batch="32")
refused("the learning rate is an argument of fit", lockstep.Trainer, build, optimizer={"lr": 1})
refused("seed is a whole number", lockstep.Trainer, build, seed="a")
refused("lr is a number, not '0.1'", t.fit, small, epochs=1, lr="0.1")
refused("a value of the graph and ndarray", lockstep.Trainer, wrong("array"))
refused("a dict of fields", t.fit, (small["x"], small["y"]), epochs=1, lr=0.1)
refused("a dict of fields", lockstep.train, recipe, train=(train["x"], train["y"]), name="bad")
refused(
    "no samples to train on", t.fit, {name: values[:0] for name, values in small.items()}, epochs=1, lr=0.1
)
refused("name the arrays: p(x=array)", predict, evaluated["x"])
refused("no rows of kind 'evaluation'; there are step, eval,", run.metrics, "evaluation")
refused("own.pt: the file would be in the format of safetensors", t.save, "own.pt")

# a run keeps the arrays that it was trained with
other = dict(train, x=train["x"] + 1)
options = dict(eval=evaluated, name="flow", storage="kept", set={"optimizer.lr": 5e-3})
refused(
    "'x' differs from the array that kept/flow was trained with",
    lockstep.train,
    longer,
    train=other,
    **options
)
assert np.array_equal(np.load("kept/flow.arrays/train_x.npy"), train["x"])
longest = dict(recipe, train=dict(recipe["train"], epochs=5))
assert lockstep.train(longest, train=other, allow_change=True, **options).state == "finished"
changed = dict(longest, train=dict(longest["train"], global_batch=32, epochs=6))
error = refused("allow_change=True", lockstep.train, changed, train=other, **options)
assert "--allow-change" not in str(error), error


def classifier(g, batch):
    assert "conv2d" in dir(g) and "name, x, out, kernel, *, stride" in g.conv2d.__doc__
    scores = g.linear("a", g.input("x", [batch, 2]), 3)
    g.loss("ce", g.cross_entropy(scores, g.input("y", [batch], "i32")), 1, "by_sample", None)
    g.output("scores", scores)


c = lockstep.Trainer(classifier, micro_batch=8)
whole = {"x": np.arange(32).reshape(16, 2), "y": np.arange(16) % 3}  # numpy's int64
assert np.isfinite(c.fit(whole, epochs=1, lr=0.1)[0]) and "loss" in c.evaluate(whole)
assert c.predictor()(x=whole["x"])["scores"].shape == (16, 3)
refused(
    "'y' has 0 to 4294967296: the model takes int32", c.step, 0.1, x=whole["x"][:2], y=np.array([0, 1 << 32])
)
refused("an array of complex128", t.step, 1e-3, x=small["x"].astype(complex), y=small["y"])
for name in lockstep._library._sizes:  # every struct lies as abi.txt says
    lockstep._library.struct(name)
for name in lockstep._library._prototypes:
    getattr(lockstep.library, name)
print("fine")
