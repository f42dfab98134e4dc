"""Small training tasks that together hold every kind of variable: prime sizes, tables, scalars, tied and idle ones.

All models are smooth (tanh, gelu), so that rounding differences stay rounding differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.zoo.user_model import repeatable_build

__all__ = ["MORE_OPTIMIZERS", "OPTIMIZERS", "OVER_ALL_GRADIENTS", "TASKS", "build"]

BATCH_SIZE = 5
ROWS = 47  # prime, and so small that ids repeat within a batch
IDS = 4

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "Adam": lambda: keras.optimizers.Adam(0.01),
}
MORE_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "Adagrad": lambda: keras.optimizers.Adagrad(0.1),  # it has a slot, but updates only touched rows
    "Nadam": lambda: keras.optimizers.Nadam(0.01),  # it has its own scalar, which all blocks of a device share
    "scheduled": lambda: keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "AdamW": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
}
OVER_ALL_GRADIENTS: dict[str, Callable[[], Any]] = {
    "clipped": lambda: keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.2),
    "clipped Adam": lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.2),
    "scaled": lambda: keras.optimizers.SGD(0.1, momentum=0.9, loss_scale_factor=1024.0, global_clipnorm=0.2),
    "dynamically scaled": lambda: keras.optimizers.LossScaleOptimizer(  # the scale grows every two steps
        keras.optimizers.Adam(0.01, global_clipnorm=0.2), initial_scale=1024.0, dynamic_growth_steps=2
    ),
}
"""Optimizers with a rule over all gradients together: every shard's update needs all others."""

Parts = tuple[Any, Callable[[Any, Any], Any], Callable[[Any], tuple[Any, Any]]]


def build(name: str, optimizer: Any) -> TrainingTask:
    """Build the task called `name`, which is the same each time."""
    with repeatable_build():
        model, loss, batch = TASKS[name]()
    return TrainingTask(name, model, loss, optimizer, BATCH_SIZE, batch)


def _squared_error(targets: Any, outputs: Any) -> Any:
    return tf.reduce_mean(tf.square(targets - outputs))


def _targets(seed: Any, width: int = 3) -> Any:
    return tf.random.stateless_normal((BATCH_SIZE, width), seed + 1)


def _features(*shape: int) -> Callable[[Any], tuple[Any, Any]]:
    return lambda seed: (tf.random.stateless_normal((BATCH_SIZE, *shape), seed), _targets(seed))


def _skewed_ids(seed: Any, columns: int = IDS) -> Any:
    """Draw unsorted row numbers, most of them small, so that batches and replicas certainly have duplicates."""
    uniform = tf.random.stateless_uniform((BATCH_SIZE, columns), seed)
    return tf.cast(tf.square(uniform) * ROWS, tf.int32)


def _looked_up(seed: Any) -> tuple[Any, Any]:
    return _skewed_ids(seed), _targets(seed)


def _ids_input() -> Any:
    return keras.Input(batch_shape=(BATCH_SIZE, IDS), dtype="int32")


def _embedding(**options: Any) -> Any:
    """Initialize rows large enough for meaningful relative errors."""
    return keras.layers.Embedding(ROWS, 5, embeddings_initializer=keras.initializers.RandomNormal(0, 0.5), **options)


class _Scale(keras.layers.Layer):
    """One scalar factor."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = self.add_weight(shape=(), initializer="ones", name="factor")

    def call(self, inputs: Any) -> Any:
        return inputs * self.factor


class _RowBias(keras.layers.Layer):
    """A table of rank one, with a number a row, that is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = self.add_weight(shape=(ROWS,), initializer="random_normal", name="bias")

    def call(self, inputs: Any) -> Any:
        return keras.ops.take(self.bias, inputs, axis=0)


class _Tied(keras.layers.Layer):
    """A table that is looked up at the input and multiplied with at the output."""

    def __init__(self) -> None:
        super().__init__()
        self.table = self.add_weight(shape=(ROWS, 5), initializer="random_normal", name="table")

    def call(self, inputs: Any) -> Any:
        hidden = keras.ops.tanh(keras.ops.mean(keras.ops.take(self.table, inputs, axis=0), axis=1))
        return keras.ops.matmul(hidden, keras.ops.transpose(self.table))


def _dense() -> Parts:
    features = keras.Input(batch_shape=(BATCH_SIZE, 7))
    x = keras.layers.Dense(13, "tanh")(features)
    x = _Scale()(keras.layers.Dense(11, "gelu")(x))
    return keras.Model(features, keras.layers.Dense(3)(x)), _squared_error, _features(7)


def _table() -> Parts:
    """The broadest task: a table with repeated rows, prime dense layers, a scalar."""
    ids = _ids_input()
    x = keras.layers.Flatten()(_embedding()(ids))
    x = _Scale()(keras.layers.Dense(13, "tanh")(x))
    return keras.Model(ids, keras.layers.Dense(3)(x)), _squared_error, _looked_up


def _pooled() -> Parts:
    """Tables of rank two and one, summed over a batch axis whose length the graph must know."""
    ids = _ids_input()
    x = keras.layers.GlobalAveragePooling1D()(_embedding()(ids))
    x = keras.layers.Concatenate()([keras.layers.Dense(7, "gelu")(x), _RowBias()(ids)])
    return keras.Model(ids, keras.layers.Dense(3)(x)), _squared_error, _looked_up


def _two_inputs() -> Parts:
    """One table looked up twice, through inputs of different lengths."""
    table = _embedding()
    first, second = _ids_input(), keras.Input(batch_shape=(BATCH_SIZE, 2), dtype="int32")
    x = keras.layers.Concatenate(axis=1)([table(first), table(second)])
    model = keras.Model([first, second], keras.layers.Dense(3)(keras.layers.Flatten()(keras.ops.tanh(x))))
    return model, _squared_error, lambda seed: ((_skewed_ids(seed), _skewed_ids(seed + 7, 2)), _targets(seed))


def _tied() -> Parts:
    ids = _ids_input()
    model = keras.Model(ids, _Tied()(ids))
    return model, _squared_error, lambda seed: (_skewed_ids(seed), _targets(seed, ROWS))


def _idle() -> Parts:
    """A second output that the loss ignores, so that its layer never trains."""
    features = keras.Input(batch_shape=(BATCH_SIZE, 7))
    x = keras.layers.Dense(13, "tanh")(features)
    outputs = [keras.layers.Dense(3, name="used")(x), keras.layers.Dense(2, name="idle")(x)]
    return keras.Model(features, outputs), lambda y, z: _squared_error(y, z[0]), _features(7)


def _regularized() -> Parts:
    """Losses that the model adds itself; one of them reads the whole table instead of looking rows up."""
    ids = _ids_input()
    x = keras.layers.Flatten()(_embedding(embeddings_regularizer=keras.regularizers.L2(0.1))(ids))
    x = keras.layers.Dense(7, "tanh", kernel_regularizer=keras.regularizers.L2(0.3))(x)
    return keras.Model(ids, keras.layers.Dense(3)(x)), _squared_error, _looked_up


def _convolution() -> Parts:
    images = keras.Input(batch_shape=(BATCH_SIZE, 7, 7, 2))
    x = keras.layers.Conv2D(5, 3, activation="tanh")(images)
    x = keras.layers.DepthwiseConv2D(3, activation="gelu")(x)
    return keras.Model(images, keras.layers.Dense(3)(keras.layers.Flatten()(x))), _squared_error, _features(7, 7, 2)


def _recurrent() -> Parts:
    """A loop in the graph, over a looked-up sequence."""
    ids = _ids_input()
    x = keras.layers.SimpleRNN(7)(_embedding()(ids))
    return keras.Model(ids, keras.layers.Dense(3)(x)), _squared_error, _looked_up


def _two_dtypes() -> Parts:
    """float32 and float64 variables: each dtype has its own buckets and its own optimizer."""
    features = keras.Input(batch_shape=(BATCH_SIZE, 7))
    x = keras.layers.Dense(13, "tanh")(features)
    x = keras.layers.Dense(5, "tanh", dtype="float64")(x)
    return keras.Model(features, keras.layers.Dense(3)(x)), _squared_error, _features(7)


class _Turned(keras.layers.Layer):
    """Multiplies by its weight's transpose, and by another weight whose columns come first."""

    def __init__(self) -> None:
        super().__init__()
        self.turned = self.add_weight(shape=(11, 5), initializer="glorot_uniform", name="turned")
        self.mixed = self.add_weight(shape=(3, 11), initializer="glorot_uniform", name="mixed")

    def call(self, inputs: Any) -> Any:
        hidden = keras.ops.tanh(tf.linalg.matmul(inputs, self.turned, transpose_b=True))
        return tf.einsum("bth,oh->bto", hidden, self.mixed)


def _sequence() -> Parts:
    """Matrices that are multiplied with every step of a sequence, each in another way."""
    features = keras.Input(batch_shape=(BATCH_SIZE, 4, 7))
    x = keras.layers.Dense(13, "tanh")(features)
    x = keras.layers.EinsumDense("abc,cd->abd", output_shape=(4, 5), bias_axes="d")(x)
    x = keras.layers.Flatten()(_Turned()(x))
    return keras.Model(features, keras.layers.Dense(3)(x)), _squared_error, _features(4, 7)


def _double() -> Parts:
    """float64 only: no rounding that an unstable algorithm could amplify."""
    features = keras.Input(batch_shape=(BATCH_SIZE, 7))
    x = keras.layers.Dense(13, "tanh", dtype="float64")(features)
    x = keras.layers.Dense(11, "gelu", dtype="float64")(x)
    model = keras.Model(features, keras.layers.Dense(3, dtype="float64")(x))
    return model, lambda y, z: _squared_error(tf.cast(y, tf.float64), z), _features(7)


def _normalized() -> Parts:
    """Batch normalization: statistics of each replica's own batch."""
    features = keras.Input(batch_shape=(BATCH_SIZE, 7))
    x = keras.layers.BatchNormalization()(keras.layers.Dense(13, "tanh")(features))
    return keras.Model(features, keras.layers.Dense(3)(x)), _squared_error, _features(7)


TASKS: dict[str, Callable[[], Parts]] = {
    "dense": _dense,
    "table": _table,
    "pooled": _pooled,
    "two inputs": _two_inputs,
    "tied": _tied,
    "idle": _idle,
    "regularized": _regularized,
    "convolution": _convolution,
    "recurrent": _recurrent,
    "two dtypes": _two_dtypes,
    "sequence": _sequence,
    "double": _double,
    "normalized": _normalized,
}
