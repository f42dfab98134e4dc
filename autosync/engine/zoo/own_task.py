"""A training task from a user's own model, loss, example batch and optimizer, checked by training on the batch once."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import keras
import numpy as np

from autosync.engine.capture.metrics import TaskMetrics
from autosync.engine.capture.task import TrainingTask
from autosync.engine.zoo.drawing import Seed
from autosync.errors import ModelError


@dataclass(frozen=True, eq=False)
class ExampleBatch:
    """Calling it with an int32 seed of shape (2,) gives (inputs, targets), rolled along the first axis by the seed.
    A `numpy.random.SeedSequence` gives `arrays` as they are.

    `arrays` is a structure of NumPy arrays, not of tensors: a traced function then holds them as constants of its own
    instead of capturing them. Rolling keeps each example whole, so embedding ids stay the real ones; seeds that differ
    by less than the batch size in one place give different orders. What counts positions in the batch, as targets
    may, is wrong once it is rolled; with `rolled` False every seed gives the example as it is.
    """

    arrays: tuple[Any, Any]
    batch_size: int
    rolled: bool = True

    @classmethod
    def from_pair(cls, spec: str, pair: Any) -> ExampleBatch:
        """The batch of `pair`, (inputs, targets). Raises `ModelError`, naming `spec`, unless first axes are equal.

        float64 becomes float32, as `keras.Model.fit` does it.
        """
        try:
            arrays = keras.tree.map_structure(_array, pair)
        except (TypeError, ValueError) as error:
            raise ModelError(f"The batch of {spec!r} must hold arrays or tensors only, but: {error}.") from error
        leaves = keras.tree.flatten(arrays)
        lengths = sorted({each.shape[0] if each.ndim else 0 for each in leaves})
        if len(lengths) != 1 or lengths[0] < 1:
            shapes = ", ".join(str(each.shape) for each in leaves)
            raise ModelError(
                f"All inputs and targets of {spec!r} must have the batch size as first dimension, "
                f"but their shapes are {shapes}."
            )
        return cls(arrays, lengths[0])

    def inputs(self) -> Any:
        """The inputs as tensors, in the order the user gave them."""
        import tensorflow as tf

        return tf.nest.map_structure(tf.constant, self.arrays[0])

    def __call__(self, seed: Seed) -> tuple[Any, Any]:
        if isinstance(seed, np.random.SeedSequence):
            return self.arrays
        import tensorflow as tf

        if not self.rolled:
            inputs, targets = tf.nest.map_structure(tf.constant, self.arrays)
            return inputs, targets
        shift = tf.math.floormod(tf.reduce_sum(seed), self.batch_size)
        inputs, targets = tf.nest.map_structure(lambda each: tf.roll(tf.constant(each), shift, axis=0), self.arrays)
        return inputs, targets


def _array(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"found {type(value).__name__} of dtype {array.dtype}")
    return array.astype(np.float32) if array.dtype == np.float64 else array


@dataclass(frozen=True)
class OwnParts:
    """What a user hands over, and what the parts are called in sentences that refuse one of them.

    The loss is a callable (targets, outputs) -> scalar, a Keras loss, or the name of one, then averaged over the batch.
    `metrics` are what `keras.Model.compile` takes. With `any_batch_size` the task also trains on batches of other sizes
    than the example's.
    """

    model: Any
    loss: Any
    example: Any
    optimizer: Any
    any_batch_size: bool = False
    metrics: Any = ()
    called: tuple[str, str, str] = ("The model", "The loss", "The optimizer")


def own_task(name: str, parts: OwnParts) -> TrainingTask:
    """The task `name`; a model that is not built yet is built on the example. Raises `ModelError`.

    Each replica's batch is the example rolled along its first axis. Where an example has an output for each other one
    of its batch, the batch is the example as it is: such a model's targets are likely to be positions in the batch.
    """
    model_is, _, optimizer_is = parts.called
    if not isinstance(parts.model, keras.Model):
        raise ModelError(f"{model_is} must be a keras.Model, not {type(parts.model).__name__}.")
    if not isinstance(parts.optimizer, keras.optimizers.Optimizer):
        raise ModelError(f"{optimizer_is} must be a keras.optimizers.Optimizer, not {type(parts.optimizer).__name__}.")
    batch = ExampleBatch.from_pair(name, parts.example)
    if keras.backend.backend() != "tensorflow":
        return _elsewhere(name, parts, batch)
    _build(name, parts.model, batch.inputs())
    batch = replace(batch, rolled=not _coupled_shapes(parts.model, batch.inputs(), batch.batch_size))
    loss = _loss(name, parts.loss, parts.called[1])
    task = TrainingTask(
        name=name,
        model=parts.model,
        loss=loss,
        optimizer=parts.optimizer,
        batch_size=batch.batch_size,
        batch=batch,
        any_batch_size=parts.any_batch_size,
    )
    _check_trainable(task)
    return replace(task, metrics=_metrics(task, parts.metrics)) if parts.metrics else task


def _elsewhere(name: str, parts: OwnParts, batch: ExampleBatch) -> TrainingTask:
    """The task where Keras runs on another back end: built, but neither checked by training nor measured by metrics."""
    inputs, _ = keras.tree.map_structure(keras.ops.convert_to_tensor, batch.arrays)
    _build(name, parts.model, inputs)
    loss = _loss(name, parts.loss, parts.called[1])
    return TrainingTask(name, parts.model, loss, parts.optimizer, batch.batch_size, batch)


def _build(name: str, model: Any, inputs: Any) -> None:
    if model.built:
        return
    try:
        model(inputs)
    except Exception as error:
        raise ModelError(
            f"The model of {name!r} is not built, and calling it on the example inputs failed: {blame(error)}."
        ) from error


def _loss(name: str, loss: Any, loss_is: str) -> Callable[[Any, Any], Any]:
    """`loss` as a function to a float32 tensor; a named loss is averaged, all others are left at the rank they have."""
    named = isinstance(loss, str)
    try:
        found = keras.losses.get(loss) if named else loss
    except ValueError as error:
        raise ModelError(f"{name!r} names the loss {loss!r}, which Keras does not know.") from error
    if not callable(found):
        raise ModelError(
            f"{loss_is} must be a loss, that is a callable (targets, outputs) -> scalar or a Keras loss's name, "
            f"not {type(loss).__name__}."
        )
    if keras.backend.backend() != "tensorflow":
        mean = keras.ops.mean if named else keras.ops.convert_to_tensor
        return lambda targets, outputs: keras.ops.cast(mean(found(targets, outputs)), "float32")
    import tensorflow as tf

    if named:
        return lambda targets, outputs: tf.cast(tf.reduce_mean(found(targets, outputs)), tf.float32)
    return lambda targets, outputs: tf.cast(found(targets, outputs), tf.float32)


def _metrics(task: TrainingTask, metrics: Any) -> TaskMetrics:
    import tensorflow as tf

    inputs, targets = task.batch(tf.zeros((2,), tf.int32))
    return TaskMetrics(metrics, targets, task.model(inputs, training=False))


def _check_trainable(task: TrainingTask) -> None:
    """Train on the example batch once, and raise `ModelError` where that shows what could not be captured."""
    import tensorflow as tf

    from autosync.engine.zoo.losses import gradients

    if not task.model.trainable_variables:
        raise ModelError(f"The model of {task.name!r} has no trainable variables, so there is nothing to synchronize.")
    try:
        loss, found = gradients(task, tf.zeros((2,), tf.int32))
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
    if all(each is None for each in found):
        raise ModelError(
            f"The loss of {task.name!r} does not depend on any trainable variable; compute it from the model's outputs."
        )
    if task.any_batch_size and task.batch_size > 1:
        _check_separable(task)
        _check_mean(task)


def _coupled_shapes(model: Any, inputs: Any, batch_size: int) -> tuple[Any, ...]:
    """Shapes, for the whole batch and for a part of it, of outputs that are not of one shape for each example, as the
    similarities of all pairs; () where there are none, or a part of a batch cannot be told apart.
    """
    import tensorflow as tf

    count = _part_of(batch_size)

    def outputs(examples: int) -> list[Any]:
        given = tf.nest.map_structure(lambda each: each[:examples], inputs)
        values = model.trainable_variables, model.non_trainable_variables  # which a plain call might change
        return list(tf.nest.flatten(model.stateless_call(*values, given, training=False)[0]))

    try:
        whole, part = outputs(batch_size), outputs(count)
        shapes = [(tuple(each.shape), tuple(of_part.shape)) for each, of_part in zip(whole, part, strict=True)]
    except Exception:  # a model may be made for batches of one size alone; what is wrong with it is said elsewhere
        return ()
    return next((pair for pair in shapes if pair[1] != (count, *pair[0][1:])), ())


def _part_of(batch_size: int) -> int:
    """The size of a part of a batch that is not half of it, where a batch of two allows it."""
    return (batch_size + 2) // 3


def _check_separable(task: TrainingTask) -> None:
    """Raise `ModelError` unless each example has its outputs by itself, since examples are dealt out to replicas."""
    import tensorflow as tf

    inputs, _ = task.batch(tf.zeros((2,), tf.int32))
    if shapes := _coupled_shapes(task.model, inputs, task.batch_size):
        raise ModelError(
            f"An example's outputs must not depend on which others are in its batch, since batches are dealt out to "
            f"replicas, but {task.name!r} has outputs of shape {shapes[0]} for {task.batch_size} examples and "
            f"{shapes[1]} for {_part_of(task.batch_size)}; give its inputs a batch size, as keras.Input(shape, "
            "batch_size=N), and every replica gets a batch of N of its own."
        )


def _check_mean(task: TrainingTask) -> None:
    """Raise `ModelError` unless the loss is a mean over examples: replicas' losses are averaged by example counts."""
    import math

    import tensorflow as tf

    inputs, targets = task.batch(tf.zeros((2,), tf.int32))
    outputs = task.model(inputs, training=False)
    cut = _part_of(task.batch_size)

    def loss_of(part: slice) -> float:
        return float(task.loss(*(tf.nest.map_structure(lambda each: each[part], each) for each in (targets, outputs))))

    try:
        whole, first, second = (loss_of(part) for part in (slice(None), slice(0, cut), slice(cut, None)))
    except Exception as error:
        raise ModelError(
            f"The loss of {task.name!r} must be a mean over examples, but on a part of the example batch it fails: "
            f"{blame(error)}."
        ) from error
    weighed = (cut * first + (task.batch_size - cut) * second) / task.batch_size
    if not math.isclose(whole, weighed, rel_tol=1e-3, abs_tol=1e-5):
        raise ModelError(
            f"The loss of {task.name!r} must be a mean over examples, but on the example batch it is {whole:.5g}, and "
            f"{weighed:.5g} when computed on two parts and averaged by their sizes; average it over examples."
        )


def blame(error: BaseException) -> str:
    """The error's type and message, and the last line of the user's code it passed through."""
    message = " ".join(str(error).split()) or "no message"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {message}"
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_users(frame)]
    if not frames:
        return f"{type(error).__name__}: {message}"
    frame, line = frames[-1]
    return f"{type(error).__name__}: {message} (at {os.path.relpath(frame.f_code.co_filename)}:{line})"


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    paths = sysconfig.get_paths()
    libraries = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return os.path.isfile(file) and not any(file.startswith(each + os.sep) for each in {*libraries, ours})
