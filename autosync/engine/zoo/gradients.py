"""The gradients of a training task, straight from Keras."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autosync.engine.capture.task import TrainingTask

__all__ = ["gradients"]


def gradients(task: TrainingTask, seed: Any) -> tuple[Any, list[Any]]:
    """Loss, and one gradient a trainable variable (tensor, `tf.IndexedSlices`, or None), of the batch from `seed`.

    Works on plain tensors, so that a looked-up table's gradient stays sparse: eagerly, or inside a `tf.function`.
    """
    inputs, targets = task.batch(seed)
    values = [tf.convert_to_tensor(each) for each in task.model.trainable_variables]
    others = [tf.convert_to_tensor(each) for each in task.model.non_trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(values)
        outputs, _ = task.model.stateless_call(values, others, inputs, training=True)
        loss = task.loss(targets, outputs)
    return loss, tape.gradient(loss, values)
