"""One line on a training task: what its gradient weighs, found by tracing it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from autosync.engine.task import TrainingTask

__all__ = ["described", "gradients"]


def gradients(task: TrainingTask, seed: Any) -> tuple[Any, list[Any]]:
    """Loss, and one gradient a trainable variable (tensor, `tf.IndexedSlices`, or None), of the batch from `seed`.

    Works on plain tensors, so that a looked-up table's gradient stays sparse. Eager or inside a `tf.function`.
    """
    inputs, targets = task.batch(seed)
    values = [tf.convert_to_tensor(each) for each in task.model.trainable_variables]
    others = [tf.convert_to_tensor(each) for each in task.model.non_trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(values)
        outputs, _ = task.model.stateless_call(values, others, inputs, training=True)
        loss = task.loss(targets, outputs)
    return loss, tape.gradient(loss, values)


def described(task: TrainingTask) -> str:
    """One line: parameters, dense and at most sparse gradient, batch and optimizer of `task`."""
    found: list[Any] = []

    def record(seed: Any) -> None:
        found.extend(gradients(task, seed)[1])

    tf.function(record).get_concrete_function(tf.TensorSpec((2,), tf.int32))
    parameters = sum(math.prod(each.shape) for each in task.model.trainable_variables)
    dense = _megabytes(each for each in found if isinstance(each, tf.Tensor))
    sparse = [each.values for each in found if isinstance(each, tf.IndexedSlices)]
    rows = f" and at most {_megabytes(sparse):.1f} MB in rows of {len(sparse)} sparse tables" if sparse else ""
    optimizer = task.optimizer
    return (
        f"{task.name}: {parameters / 1e6:.3g} M parameters; gradient {dense:.1f} MB dense{rows}; "
        f"batch {task.batch_size} per replica; {type(optimizer).__name__} at {float(optimizer.learning_rate):.3g}"
    )


def _megabytes(tensors: Iterable[Any]) -> float:
    return float(sum(math.prod(each.shape) * each.dtype.size for each in tensors)) / 1e6
