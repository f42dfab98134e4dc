"""A model with enough traffic to count: two matrices, biases, and a table with few touched rows."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["task"]

ROWS, WIDTH, LOOKUPS, BATCH = 20_000, 32, 24, 16


def task() -> tuple[Any, ...]:
    """Return a model for `--model module:function`, with 2.2 MB of dense gradients and 0.05 MB of rows a step."""
    import keras

    ids = keras.Input(batch_shape=(BATCH, LOOKUPS), dtype="int32")
    x = keras.layers.Flatten()(keras.layers.Embedding(ROWS, WIDTH)(ids))
    x = keras.layers.Dense(521, "tanh")(x)
    model = keras.Model(ids, keras.layers.Dense(293)(x))
    inputs = np.random.default_rng(0).permutation(ROWS)[: BATCH * LOOKUPS].reshape(BATCH, LOOKUPS).astype("int32")
    targets = np.zeros((BATCH, 293), "float32")
    return model, "mse", (inputs, targets), keras.optimizers.SGD(1e-3, momentum=0.9)
