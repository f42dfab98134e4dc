"""Training tasks from a user's own model, loss, example batch and optimizer, checked by training on the batch once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from autosync.engine.core.blame import blame
from autosync.engine.core.text_inputs import WITHOUT_TEXT, is_text
from autosync.engine.tensorflow.capture.forward import build_on, run_inference
from autosync.engine.tensorflow.capture.metrics import TaskMetrics
from autosync.engine.tensorflow.capture.optimizer import optimizer_as_compiled
from autosync.engine.tensorflow.capture.overridden import notes_on_overrides
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.errors import ModelError
from autosync.zoo.checked import check_trainable, coupled_shapes, is_masked
from autosync.zoo.drawing import Seed
from autosync.zoo.own_loss import check_alignment, loss_function
from autosync.zoo.own_parts import CALLED, resolve_parts


@dataclass(frozen=True, eq=False)
class ExampleBatch:
    """A batch that repeats the user's example.

    Calling it with an int32 seed of shape (2,) returns (inputs, targets), rolled along the first axis by the seed.
    Calling it with a `numpy.random.SeedSequence` returns `arrays` unchanged.

    `arrays` is a structure of NumPy arrays, not of tensors, so that a traced function holds them as constants instead
    of capturing them. Rolling keeps each example whole, so embedding ids stay real. Seeds whose sums differ by less
    than the batch size give different orders. Targets that are positions in the batch would be wrong after rolling;
    with `rolled` False, every seed returns the example unchanged.
    """

    arrays: tuple[Any, Any]
    batch_size: int
    rolled: bool = True

    @classmethod
    def from_pair(cls, spec: str, pair: Any) -> ExampleBatch:
        """The batch of `pair`, (inputs, targets). Raises `ModelError`, naming `spec`, unless first axes are equal.

        float64 becomes float32, as in `keras.Model.fit`.
        """
        try:
            arrays = keras.tree.map_structure(_array, pair)
        except (TypeError, ValueError) as error:
            raise ModelError(f"The batch of {spec!r} must hold arrays or tensors only, but: {error}.") from error
        leaves = keras.tree.flatten(arrays)
        lengths = sorted({leaf.shape[0] if leaf.ndim else 0 for leaf in leaves})
        if len(lengths) != 1 or lengths[0] < 1:
            shapes = ", ".join(str(leaf.shape) for leaf in leaves)
            raise ModelError(
                f"All inputs and targets of {spec!r} must have the batch size as first dimension, "
                f"but their shapes are {shapes}."
            )
        return cls(arrays, lengths[0])

    def first_examples(self, examples: int | None) -> ExampleBatch:
        """The first `examples` examples of the batch; the whole batch if it has no more or `examples` is None."""
        if examples is None or self.batch_size <= examples:
            return self
        return ExampleBatch(keras.tree.map_structure(lambda array: array[:examples], self.arrays), examples)

    def inputs(self) -> Any:
        """The inputs as tensors, in the user's order."""
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
        inputs, targets = tf.nest.map_structure(lambda array: tf.roll(tf.constant(array), shift, axis=0), self.arrays)
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
    """The parts of a training task that a user passes."""

    model: Any
    loss: Any
    """As in `loss_function`."""
    example: Any
    """The example batch, (inputs, targets)."""
    optimizer: Any
    any_batch_size: bool = False
    """Whether the task also trains on batches of other sizes than the example's."""
    most_examples: int | None = None
    """A longer example is cut to its first `most_examples`, the batch size of the model's inputs; None for no limit."""
    metrics: Any = ()
    """As in `keras.Model.compile`."""
    weighted: bool = False
    """Whether the example's targets are pairs (targets, weights of examples)."""
    called: tuple[str, str, str] = CALLED
    """Names of model, loss and optimizer in error messages."""


def user_task(name: str, parts: OwnParts) -> TrainingTask:
    """Return the task `name`; a model that is not built yet is built on the example. Raises `ModelError`.

    Each replica's batch is the example rolled along its first axis. If the model compares every example with every
    other example of the batch, the batch is not rolled, because its targets are probably positions in the batch.
    """
    loss, optimizer = resolve_parts(parts.model, parts.loss, parts.optimizer, parts.called)
    parts = replace(parts, loss=loss, optimizer=optimizer)
    notes = notes_on_overrides(parts.model, parts.called[0])
    if getattr(parts.model, "_compile_metrics", None) is not None and not parts.metrics:
        notes += (UNREPORTED,)
    batch = ExampleBatch.from_pair(name, parts.example).first_examples(parts.most_examples)
    if keras.backend.backend() != "tensorflow":
        return _elsewhere(name, parts, batch)
    _build(name, parts.model, batch.inputs())
    batch = replace(batch, rolled=not coupled_shapes(parts.model, batch.inputs(), batch.batch_size))
    loss = loss_function(name, parts.loss, parts.called[1], parts.weighted, parts.model)
    task = TrainingTask(
        name=name,
        model=parts.model,
        loss=loss,
        optimizer=optimizer_as_compiled(parts.model, parts.optimizer),
        batch_size=batch.batch_size,
        batch=batch,
        any_batch_size=parts.any_batch_size,
        notes=notes,
    )
    check_trainable(task)
    if is_masked(run_inference(task.model, batch.inputs()).outputs):
        task = replace(task, notes=(*notes, MASKED))
    _check_alignment(task, parts)
    return replace(task, metrics=_metrics(task, parts)) if parts.metrics else task


def _elsewhere(name: str, parts: OwnParts, batch: ExampleBatch) -> TrainingTask:
    """The task if Keras runs on another back end: built, but neither checked by training nor measured by metrics."""
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
    """Raise `ModelError` if Keras would pass the loss function targets and outputs of other ranks."""
    import tensorflow as tf

    if parts.weighted or isinstance(parts.loss, str | dict | list | tuple | type | keras.losses.Loss):
        return
    inputs, targets = task.batch(tf.zeros((2,), tf.int32))
    check_alignment(parts.loss, parts.called[1], targets, run_inference(task.model, inputs).outputs)


def _metrics(task: TrainingTask, parts: OwnParts) -> TaskMetrics:
    import tensorflow as tf

    inputs, targets = task.batch(tf.zeros((2,), tf.int32))
    return TaskMetrics(parts.metrics, targets, run_inference(task.model, inputs).outputs, parts.weighted)
