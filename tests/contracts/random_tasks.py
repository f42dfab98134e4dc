"""Small models drawn at random: layers of every kind behind one another, of odd sizes, some used twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

__all__ = ["random_parts"]

WIDTHS = (1, 2, 3, 5, 7, 11, 16)
ACTIVATIONS = ("tanh", "gelu", "softplus")  # smooth, so that rounding stays rounding


def random_parts(seed: int, batch_size: int) -> tuple[Any, Callable[[Any, Any], Any], Callable[[Any], tuple[Any, Any]]]:
    """Model, loss and batch function; the same for the same seed, in any process."""
    rng = random.Random(seed)
    looks_up = rng.random() < 0.5
    rows, columns = rng.choice((5, 13, 47)), rng.choice((1, 3, 4))
    inputs = keras.Input(batch_shape=(batch_size, columns), dtype="int32" if looks_up else "float32")
    x = _embedded(inputs, rows, rng) if looks_up else inputs
    for _ in range(rng.randint(1, 3)):
        x = _layer(x, rng)
    outputs = keras.layers.Dense(3, use_bias=rng.random() < 0.5)(keras.layers.Flatten()(x))

    def batch(at: Any) -> tuple[Any, Any]:
        targets = tf.random.stateless_normal((batch_size, 3), at + 1)
        if looks_up:
            return tf.random.stateless_uniform((batch_size, columns), at, maxval=rows, dtype=tf.int32), targets
        return tf.random.stateless_normal((batch_size, columns), at), targets

    return keras.Model(inputs, outputs), lambda y, z: tf.reduce_mean(tf.square(y - z)), batch


def _embedded(ids: Any, rows: int, rng: random.Random) -> Any:
    """One or two tables looked up by the same ids, side by side."""
    start = keras.initializers.RandomNormal(0, 0.5)
    parts = [
        keras.layers.Embedding(rows, rng.choice(WIDTHS), embeddings_initializer=start)(ids)
        for _ in range(rng.randint(1, 2))
    ]
    return keras.layers.Concatenate()(parts) if len(parts) > 1 else parts[0]


def _layer(x: Any, rng: random.Random) -> Any:
    """A layer behind `x`, (batch, width) or (batch, steps, width)."""
    width, activation = rng.choice(WIDTHS), rng.choice(ACTIVATIONS)
    kind = rng.choice(("dense", "dense", "twice", "normalized", "recurrent"))
    if kind == "recurrent" and len(x.shape) == 3:
        return keras.layers.SimpleRNN(width, activation="tanh")(x)
    if kind == "normalized":
        return keras.layers.LayerNormalization(epsilon=0.1)(keras.layers.Dense(max(width, 2), activation)(x))
    if kind == "twice":  # its gradient is a sum of two products
        shared = keras.layers.Dense(x.shape[-1], activation)
        return shared(shared(x))
    regularizer = keras.regularizers.L2(0.1) if rng.random() < 0.2 else None
    return keras.layers.Dense(width, activation, kernel_regularizer=regularizer)(x)
