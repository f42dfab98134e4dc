"""Checks a user's training task by training on the example batch once, before the task is captured."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autosync.engine.core.blame import blame
from autosync.engine.tensorflow.capture.forward import run_inference
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.engine.tensorflow.capture.variables import state_variables
from autosync.errors import ModelError


def check_trainable(task: TrainingTask) -> None:
    """Train on the example batch once, and raise `ModelError` if the task cannot be trained or captured."""
    import tensorflow as tf

    from autosync.zoo.losses import gradients

    if not task.model.trainable_variables:
        raise ModelError(f"The model of {task.name!r} has no trainable variables, so there is nothing to synchronize.")
    try:
        loss, computed = gradients(task, tf.zeros((2,), tf.int32))
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"The model or loss of {task.name!r} fails on the example batch: {blame(error)}.") from error
    if loss.shape.rank != 0:
        raise ModelError(
            f"The loss of {task.name!r} must be a scalar, but has shape {tuple(loss.shape)}; "
            "take its mean over the batch."
        )
    if not np.isfinite(float(loss)):
        raise ModelError(
            f"The loss of {task.name!r} must be finite, but is {float(loss)} on the example batch; check the batch."
        )
    if all(mask is None for mask in computed):
        raise ModelError(
            f"The loss of {task.name!r} does not depend on any trainable variable; compute it from the model's outputs."
        )
    if task.any_batch_size and task.batch_size > 1:
        _check_separable(task)
        _check_mean(task)


def coupled_shapes(model: Any, inputs: Any, batch_size: int) -> tuple[Any, ...]:
    """The shapes, for the whole batch and for a part, of an output whose shape per example depends on the batch size,
    such as the similarities of all pairs. () if there is no such output, or if the model rejects a part of the batch.
    """
    import tensorflow as tf

    count = _part_of(batch_size)

    def outputs(examples: int) -> list[Any]:
        some_inputs = tf.nest.map_structure(lambda tensor: tensor[:examples], inputs)
        return list(tf.nest.flatten(run_inference(model, some_inputs).outputs))

    try:
        whole, part = outputs(batch_size), outputs(count)
        shapes = [(tuple(of_whole.shape), tuple(of_part.shape)) for of_whole, of_part in zip(whole, part, strict=True)]
    except Exception:  # a model may accept a single batch size only; capturing reports real faults
        return ()
    return next((pair for pair in shapes if pair[1] != (count, *pair[0][1:])), ())


def _part_of(batch_size: int) -> int:
    """The size of a part of a batch: about a third, and never exactly half unless the batch has two examples."""
    return (batch_size + 2) // 3


def _check_separable(task: TrainingTask) -> None:
    """Raise `ModelError` unless an example's outputs are independent of its batch, because replicas split batches."""
    import tensorflow as tf

    inputs, _ = task.batch(tf.zeros((2,), tf.int32))
    if shapes := coupled_shapes(task.model, inputs, task.batch_size):
        raise ModelError(
            f"An example's outputs must not depend on which others are in its batch, since batches are dealt out to "
            f"replicas, but {task.name!r} has outputs of shape {shapes[0]} for {task.batch_size} examples and "
            f"{shapes[1]} for {_part_of(task.batch_size)}; give its inputs a batch size, as keras.Input(shape, "
            "batch_size=N), and every replica gets a batch of N of its own."
        )


def _check_mean(task: TrainingTask) -> None:
    """Raise `ModelError` unless the loss is a mean over examples: replicas' losses are averaged by example counts.

    First the loss function is checked on parts of one pass's outputs. Then, unless a pass draws random numbers, passes
    over parts of the batch are checked; these include losses that layers add, and masks.
    """
    import tensorflow as tf

    batch = task.batch(tf.zeros((2,), tf.int32))
    outputs = run_inference(task.model, batch[0]).outputs

    def of_outputs(part: slice) -> float:
        return float(task.loss(*tf.nest.map_structure(lambda tensor: tensor[part], (batch[1], outputs))))

    def of_passes(part: slice) -> float:
        inputs, targets = tf.nest.map_structure(lambda tensor: tensor[part], batch)
        done = run_inference(task.model, inputs, lambda outputs: task.loss(targets, outputs))
        # The loss of masked outputs may differ between parts; a note of the task says so.
        loss = 0.0 if is_masked(outputs) else float(done.loss)
        return loss + sum(float(tf.reduce_sum(added)) for added in done.added)

    try:
        whole, parts = _whole_and_parts(of_outputs, task.batch_size)
        by_passes = None if _is_random(task.model, batch[0]) else _whole_and_parts(of_passes, task.batch_size)
    except Exception as error:
        raise ModelError(
            f"The loss of {task.name!r} must be a mean over examples, but on a part of the example batch it fails: "
            f"{blame(error)}."
        ) from error
    if not _is_close(whole, parts):
        raise ModelError(
            f"The loss of {task.name!r} must be a mean over examples, but on the example batch it is {whole:.5g}, and "
            f"{parts:.5g} when computed on two parts and averaged by their sizes; average it over examples."
        )
    if by_passes is not None and not _is_close(*by_passes):
        whole, parts = by_passes
        raise ModelError(
            f"An example's loss must not depend on the others in its batch, since batches are dealt out to replicas, "
            f"but with the losses that layers add it is {whole:.5g} for the example batch of {task.name!r}, and "
            f"{parts:.5g} when computed on two parts and averaged by their sizes; the cause is a layer that computes "
            "with the whole batch or adds a sum over it as a loss."
        )


def is_masked(outputs: Any) -> bool:
    """Whether outputs carry a mask; Keras divides a loss by the number of unmasked positions."""
    import keras

    return any(getattr(output, "_keras_mask", None) is not None for output in keras.tree.flatten(outputs))


def _is_random(model: Any, inputs: Any) -> bool:
    """Whether a pass in inference mode draws random numbers, from a generator of Keras or from elsewhere."""
    import tensorflow as tf

    first, second = run_inference(model, inputs), run_inference(model, inputs)
    for before, after in zip(state_variables(model), first.state, strict=True):
        if "seed_generator" in before.path and bool(tf.reduce_any(before.value != after)):
            return True
    pairs = zip(tf.nest.flatten(first.outputs), tf.nest.flatten(second.outputs), strict=True)
    return any(not np.allclose(left, right, equal_nan=True) for left, right in pairs)


def _whole_and_parts(loss_of: Callable[[slice], float], batch_size: int) -> tuple[float, float]:
    """The loss of a batch, and the mean loss of two parts, weighted by their sizes."""
    cut = _part_of(batch_size)
    whole, first, second = (loss_of(part) for part in (slice(None), slice(0, cut), slice(cut, None)))
    return whole, (cut * first + (batch_size - cut) * second) / batch_size


def _is_close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=1e-3, abs_tol=1e-5)
