"""Losses of the zoo's models: means over one replica's batch, float32 scalars.

On TensorFlow they use TensorFlow's fused operations; on other back ends of Keras, the same formulas in `keras.ops`.
"""

from typing import Any

import keras

from autosync.engine.tensorflow.capture.forward import run_forward
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.engine.tensorflow.capture.variables import state_variables


def cross_entropy(targets: Any, logits: Any) -> Any:
    """Mean of -log softmax(logits)[target]; int32 targets of shape (...), float32 logits of shape (..., classes)."""
    if keras.backend.backend() != "tensorflow":
        # Like fused cross-entropies, without one-hot targets, which for 30 000 words would cost as much as a layer.
        log_shares = keras.ops.log_softmax(keras.ops.cast(logits, "float32"))
        return -keras.ops.mean(keras.ops.take_along_axis(log_shares, targets[..., None], axis=-1))
    import tensorflow as tf

    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits))


def binary_cross_entropy(targets: Any, logits: Any) -> Any:
    """Mean logistic loss; float32 targets in [0, 1] and float32 logits of the same shape."""
    if keras.backend.backend() != "tensorflow":
        logits = keras.ops.cast(logits, "float32")
        return keras.ops.mean(keras.ops.softplus(logits) - targets * logits)
    import tensorflow as tf

    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits))


def gradients(task: TrainingTask, seed: Any) -> tuple[Any, list[Any]]:
    """The loss of the batch from `seed`, and a gradient per trainable variable (tensor, `tf.IndexedSlices` or None).

    Works on plain tensors, eagerly or inside a `tf.function`, so that the gradient of an embedding table stays sparse.
    """
    import tensorflow as tf

    inputs, targets = task.batch(seed)
    values = [tf.convert_to_tensor(variable) for variable in task.model.trainable_variables]
    state = [tf.convert_to_tensor(variable) for variable in state_variables(task.model)]
    with tf.GradientTape() as tape:
        tape.watch(values)
        loss = run_forward(task.model, values, state, inputs, lambda outputs: task.loss(targets, outputs)).loss
    return loss, tape.gradient(loss, values)
