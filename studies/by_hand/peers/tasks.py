"""Training tasks for measurements: those of the zoo, and synthetic tasks with almost no compute.

dense/4000000/1       4 000 000 bytes of dense variables, in 1 variable; the gradient is a repeated number
sparse/40000/64/4096  a table of 40 000 rows of 64 floats; a replica looks up 4 096 random rows
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosync.engine.tensorflow.capture.task import TrainingTask

__all__ = ["dense", "sparse", "task_of"]

FLOAT_BYTES = 4
LEARNING_RATE = 1e-6


def dense(gradient_bytes: int, variables: int = 1) -> str:
    """Return the name of a dense task."""
    return f"dense/{gradient_bytes}/{variables}"


def sparse(rows: int, width: int, lookups: int) -> str:
    """Return the name of a sparse task."""
    return f"sparse/{rows}/{width}/{lookups}"


def task_of(name: str) -> TrainingTask:
    """Return the task called `name`. Imports TensorFlow."""
    kind, *numbers = name.split("/")
    if not numbers:
        from autosync.zoo import build_task

        return build_task(name)
    counts = [int(number) for number in numbers]
    return _dense(name, *counts) if kind == "dense" else _sparse(name, *counts)


def _dense(name: str, gradient_bytes: int, variables: int) -> TrainingTask:
    """Return a task with the loss mean(x) * (sum over all variables); each pass touches a variable once."""
    import keras
    import tensorflow as tf

    from autosync.engine.tensorflow.capture.task import TrainingTask

    class Sums(keras.layers.Layer):  # type: ignore[misc]
        def build(self, _shape: Any) -> None:
            elements, more = divmod(gradient_bytes // FLOAT_BYTES, variables)
            for index in range(variables):
                self.add_weight(shape=(elements + (index < more),), initializer="zeros", name=f"variable_{index}")

        def call(self, x: Any) -> Any:
            return x * tf.add_n([tf.reduce_sum(weight) for weight in self.trainable_weights])

    inputs = keras.Input(batch_shape=(1,), name="x")
    model = keras.Model(inputs, Sums(name="sums")(inputs))

    def batch(seed: Any) -> tuple[Any, Any]:
        return tf.random.stateless_uniform((1,), seed), tf.zeros((1,))

    return _task(TrainingTask, name, model, batch, 1)


def _sparse(name: str, rows: int, width: int, lookups: int) -> TrainingTask:
    """Return a task whose loss is the mean of the sums of all looked-up rows."""
    import keras
    import tensorflow as tf

    from autosync.engine.tensorflow.capture.task import TrainingTask

    ids = keras.Input(batch_shape=(lookups,), dtype="int32", name="ids")
    table = keras.layers.Embedding(rows, width, embeddings_initializer="zeros", name="table")
    model = keras.Model(ids, keras.ops.sum(table(ids), axis=-1))

    def batch(seed: Any) -> tuple[Any, Any]:
        drawn = tf.random.stateless_uniform((lookups,), seed, maxval=rows, dtype=tf.int32)
        return drawn, tf.zeros((lookups,))

    return _task(TrainingTask, name, model, batch, lookups)


def _task(make: Any, name: str, model: Any, batch: Any, batch_size: int) -> TrainingTask:
    import keras
    import tensorflow as tf

    return make(
        name=name,
        model=model,
        loss=lambda _targets, outputs: tf.reduce_mean(outputs),
        optimizer=keras.optimizers.SGD(LEARNING_RATE, name="sgd"),
        batch_size=batch_size,
        batch=batch,
    )
