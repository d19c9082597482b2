"""A small network learns two functions of four numbers, from arrays in memory: the program of regression.c in
Python, with the same numbers.

    python3 regression.py regression.safetensors
"""

import sys

import numpy as np

import lockstep

SAMPLES, BATCH, EPOCHS = 1000, 64, 40

n, k = np.arange(SAMPLES)[:, None], np.arange(4)
x = ((n * (2 * k + 3) + k) % 17 / 8 - 1).astype("float32")
y = np.stack([x[:, 0] * x[:, 1], np.abs(x[:, 2]) - x[:, 3]], axis=1)


def build(g, batch):
    """The model for `batch` samples. Inputs take the fields of their names."""
    inputs, target = g.input("x", [batch, 4]), g.input("y", [batch, 2])
    out = g.linear("last", g.gelu(g.linear("first", inputs, 32)), 2)
    g.loss("mse", g.square(out - target), factor=1, weigh="by_element", field=None)
    g.output("out", out)


trainer = lockstep.Trainer(build, micro_batch=BATCH, seed=1)
losses = trainer.fit({"x": x, "y": y}, epochs=EPOCHS, lr=5e-3, shuffle=False)
for epoch in range(10, EPOCHS + 1, 10):
    print(f"epoch {epoch:2d}  loss {losses[epoch - 1]:.6f}")
predicted = trainer.predictor("out")(x=x[3:4])["out"][0]
print(f"sample 4: {y[3, 0]:6.3f} and {y[3, 1]:6.3f}, predicted {predicted[0]:6.3f} and {predicted[1]:6.3f}")
trainer.save(sys.argv[1] if len(sys.argv) > 1 else "regression.safetensors")
