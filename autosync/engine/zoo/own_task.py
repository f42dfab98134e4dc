"""A training task from a user's own model, loss, example batch and optimizer, checked by training on the batch once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from autosync.engine.capture.forward import build_on, looked_at
from autosync.engine.capture.metrics import TaskMetrics
from autosync.engine.capture.optimizer import compiled_optimizer
from autosync.engine.capture.overridden import notes_on_overrides
from autosync.engine.capture.task import TrainingTask
from autosync.engine.strings import WITHOUT_TEXT, is_text
from autosync.engine.zoo.blame import blame
from autosync.engine.zoo.checked import check_trainable, coupled_shapes, is_masked
from autosync.engine.zoo.drawing import Seed
from autosync.engine.zoo.own_loss import check_alignment, loss_function
from autosync.engine.zoo.own_parts import CALLED, resolved
from autosync.errors import ModelError


@dataclass(frozen=True, eq=False)
class ExampleBatch:
    """Calling it with an int32 seed of shape (2,) gives (inputs, targets), rolled along the first axis by the seed.
    A `numpy.random.SeedSequence` gives `arrays` as they are.

    `arrays` is a structure of NumPy arrays, not of tensors: a traced function then holds them as constants of its own
    instead of capturing them. Rolling keeps each example whole, so embedding ids stay the real ones; seeds that differ
    by less than the batch size in one place give different orders. Targets that count positions in the
    batch are wrong once they are rolled; with `rolled` False every seed gives the example as it is.
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

    def shortened(self, examples: int | None) -> ExampleBatch:
        """The first `examples` of the batch; the batch itself if that is None or the batch has no more."""
        if examples is None or self.batch_size <= examples:
            return self
        return ExampleBatch(keras.tree.map_structure(lambda array: array[:examples], self.arrays), examples)

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
    if is_text(array):
        raise ValueError(f"found strings, {WITHOUT_TEXT}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"found {type(value).__name__} of dtype {array.dtype}")
    return array.astype(np.float32) if array.dtype == np.float64 else array


UNREPORTED = "The model's compiled metrics are not reported in training; give metrics to autosync.distribute."


MASKED = (
    "The model's outputs carry a mask: a replica divides its loss by the unmasked positions of its own part of the "
    "batch, and replicas' losses are averaged by examples."
)


@dataclass(frozen=True)
class OwnParts:
    """The parts of a training task that a user gives, and their names in sentences that refuse one of them.

    The loss is what `loss_function` takes. `metrics` are what `keras.Model.compile` takes. If `weighted`, the example's
    targets are pairs (targets, weights of examples). With `any_batch_size` the task also trains on batches of other
    sizes than the example's. A longer example is cut to its first `most_examples`, as many as the model's inputs
    have.
    """

    model: Any
    loss: Any
    example: Any
    optimizer: Any
    any_batch_size: bool = False
    most_examples: int | None = None
    metrics: Any = ()
    weighted: bool = False
    called: tuple[str, str, str] = CALLED


def own_task(name: str, parts: OwnParts) -> TrainingTask:
    """The task `name`; a model that is not built yet is built on the example. Raises `ModelError`.

    Each replica's batch is the example rolled along its first axis. Where an example has an output for each other one
    of its batch, the batch is the example as it is: such a model's targets are likely to be positions in the batch.
    """
    given, optimizer = resolved(parts.model, parts.loss, parts.optimizer, parts.called)
    parts = replace(parts, loss=given, optimizer=optimizer)
    notes = notes_on_overrides(parts.model, parts.called[0])
    if getattr(parts.model, "_compile_metrics", None) is not None and not parts.metrics:
        notes += (UNREPORTED,)
    batch = ExampleBatch.from_pair(name, parts.example).shortened(parts.most_examples)
    if keras.backend.backend() != "tensorflow":
        return _elsewhere(name, parts, batch)
    _build(name, parts.model, batch.inputs())
    batch = replace(batch, rolled=not coupled_shapes(parts.model, batch.inputs(), batch.batch_size))
    loss = loss_function(name, parts.loss, parts.called[1], parts.weighted, parts.model)
    task = TrainingTask(
        name=name,
        model=parts.model,
        loss=loss,
        optimizer=compiled_optimizer(parts.model, parts.optimizer),
        batch_size=batch.batch_size,
        batch=batch,
        any_batch_size=parts.any_batch_size,
        notes=notes,
    )
    check_trainable(task)
    if is_masked(looked_at(task.model, batch.inputs()).outputs):
        task = replace(task, notes=(*notes, MASKED))
    _check_alignment(task, parts)
    return replace(task, metrics=_metrics(task, parts)) if parts.metrics else task


def _elsewhere(name: str, parts: OwnParts, batch: ExampleBatch) -> TrainingTask:
    """The task where Keras runs on another back end: built, but neither checked by training nor measured by metrics."""
    inputs, _ = keras.tree.map_structure(keras.ops.convert_to_tensor, batch.arrays)
    _build(name, parts.model, inputs)
    loss = loss_function(name, parts.loss, parts.called[1], parts.weighted, parts.model)
    return TrainingTask(name, parts.model, loss, parts.optimizer, batch.batch_size, batch)


def _build(name: str, model: Any, inputs: Any) -> None:
    try:
        if keras.backend.backend() == "tensorflow":
            build_on(model, inputs)
        elif not model.built:
            model(inputs)
    except Exception as error:
        raise ModelError(
            f"The model of {name!r} is not built, and calling it on the example inputs failed: {blame(error)}."
        ) from error


def _check_alignment(task: TrainingTask, parts: OwnParts) -> None:
    """Raise `ModelError` for a loss function to which Keras would give targets and outputs of other ranks."""
    import tensorflow as tf

    if parts.weighted or isinstance(parts.loss, str | dict | list | tuple | type | keras.losses.Loss):
        return
    inputs, targets = task.batch(tf.zeros((2,), tf.int32))
    check_alignment(parts.loss, parts.called[1], targets, looked_at(task.model, inputs).outputs)


def _metrics(task: TrainingTask, parts: OwnParts) -> TaskMetrics:
    import tensorflow as tf

    inputs, targets = task.batch(tf.zeros((2,), tf.int32))
    return TaskMetrics(parts.metrics, targets, looked_at(task.model, inputs).outputs, parts.weighted)
