"""The training task: all parts of one replica's training step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosync.engine.tensorflow.capture.metrics import TaskMetrics


@dataclass(frozen=True)
class TrainingTask:
    """A model with its loss, optimizer and synthetic batches. Its TensorFlow objects keep it in its process."""

    name: str
    model: Any
    """A built `keras.Model`; `model.stateless_call` takes the inputs that `batch` returns. Initial weights and variable
    paths are the same each time the task is built, in any process."""
    loss: Callable[[Any, Any], Any]
    """(targets, outputs) -> float32 scalar, the mean over this replica's batch. The losses of replicas with equal batch
    sizes therefore average to the mean over the global batch."""
    optimizer: Any
    """An unbuilt `keras.optimizers.Optimizer`: hyperparameters without slots. A user's own may be built."""
    batch_size: int
    """The number of examples of one replica in a step."""
    batch: Callable[[Any], tuple[Any, Any]]
    """int32 seed of shape (2,) -> (inputs, targets): a TensorFlow function that makes one replica's batch inside the
    graph. Equal seeds give equal batches, and different seeds different batches. Both results are structures of tensors
    (tensor, tuple or dict) with static shapes and the leading dimension `batch_size`."""
    any_batch_size: bool = False
    """Whether the captured gradient takes batches of any size instead of only `batch_size`."""
    metrics: TaskMetrics | None = None
    """Functions of outputs and targets that training reports; None for no metrics."""
    notes: tuple[str, ...] = ()
    """Sentences for the user on differences from `keras.Model.fit`."""
    keras_defaults: bool = False
    """Whether to capture with Keras's default settings, as models of the zoo are built, instead of the user's."""
