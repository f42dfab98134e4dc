"""The training task: all that one replica's training step is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosync.engine.capture.metrics import TaskMetrics


@dataclass(frozen=True)
class TrainingTask:
    """A model with its loss, optimizer and synthetic batches; TensorFlow objects, so it never leaves its process.

    model       a built `keras.Model`; `model.stateless_call` works on what `batch` returns as inputs. Initial weights
                and variable paths are the same each time the task is built, in any process.
    loss        (targets, outputs) -> float32 scalar, the mean over this replica's batch. Replicas of equal batch size
                therefore average to the mean over the global batch.
    optimizer   an unbuilt `keras.optimizers.Optimizer`: hyperparameters only, no slots yet. A user's own may be built.
    batch_size  examples one replica takes a step.
    batch       int32 seed of shape (2,) -> (inputs, targets): a TensorFlow function that makes one replica's batch
                inside the graph. The same seed gives the same batch, different seeds different ones. Structures of
                tensors (tensor, tuple or dict), static shapes, leading dimension `batch_size`.
    keras_defaults  whether to capture with Keras' own settings, as models of the zoo are built, and not the user's.
    any_batch_size  whether the captured gradient takes batches of any number of examples, not of `batch_size` alone.
    metrics     functions of outputs and targets that training reports, or None.
    notes       sentences on differences from `keras.Model.fit`, to be printed.
    """

    name: str
    model: Any
    loss: Callable[[Any, Any], Any]
    optimizer: Any
    batch_size: int
    batch: Callable[[Any], tuple[Any, Any]]
    any_batch_size: bool = False
    metrics: TaskMetrics | None = None
    notes: tuple[str, ...] = ()
    keras_defaults: bool = False
