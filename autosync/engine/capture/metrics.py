"""Keras metrics as part of a training step: states that every replica keeps, and what they come to together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from autosync.errors import ModelError
from autosync.spec import said

if TYPE_CHECKING:
    from autosync.engine.step.placed import Placed

Array = npt.NDArray[Any]


@final
class TaskMetrics:
    """The metrics of a task, named or made by Keras, as functions of their states.

    States are added up over replicas, as sums and counts of examples are, of which Keras' metrics are made.
    """

    def __init__(self, metrics: Any, targets: Any, outputs: Any, weighted: bool = False) -> None:
        """`metrics` are as `keras.Model.compile` takes them; `targets` and `outputs` are those of an example batch.

        If `weighted`, targets come in pairs (targets, weights of examples), and metrics leave the weights out, as in
        Keras. Raises `ModelError` for what Keras does not take.
        """
        import keras

        self._weighted = weighted

        # Keras knows which accuracy "accuracy" means, and which output a metric is of, inside a compiled model only.
        self._holder = keras.Sequential(name="metrics")
        try:
            self._holder.compile(loss=None, metrics=metrics)
            self._holder.compute_metrics(None, targets[0] if weighted else targets, outputs, None)
        except Exception as error:  # whatever Keras or a metric of the user's raises
            reason = f"{type(error).__name__}: {said(error)}"
            raise ModelError(f"Metrics must be what keras.Model.compile takes, but {reason}") from error
        # Every compiled model also counts the loss; nothing is told to that counter here.
        self._unused = [each for of in self._holder.metrics if of.name == "loss" for each in of.variables]
        unused = {id(each) for each in self._unused}
        self._variables = [each for each in self._holder.metrics_variables if id(each) not in unused]
        self._holder.reset_metrics()

    @property
    def initial(self) -> tuple[Array, ...]:
        """The states before the first example."""
        return tuple(np.asarray(each.numpy()) for each in self._variables)

    def updated(self, states: Sequence[Any], targets: Any, outputs: Any) -> list[Any]:
        """The states after a batch; a pure function, to be traced."""
        import keras

        targets = targets[0] if self._weighted else targets
        with keras.StatelessScope(state_mapping=self._mapping(states)) as scope:
            self._holder.compute_metrics(None, targets, outputs, None)
        return [scope.get_current_value(each) for each in self._variables]

    def results(self, states: Sequence[Array]) -> dict[str, float]:
        """What the states come to, by metric's name. A metric of several numbers comes to their mean."""
        import keras
        import tensorflow as tf

        values = [tf.constant(state, each.dtype) for state, each in zip(states, self._variables, strict=True)]
        with keras.StatelessScope(state_mapping=self._mapping(values)):
            found = self._holder.get_metrics_result()
        return {name: float(np.mean(value)) for name, value in found.items() if name != "loss"}

    def _mapping(self, states: Sequence[Any]) -> list[tuple[Any, Any]]:
        import tensorflow as tf

        unused = [(each, tf.zeros(each.shape, each.dtype)) for each in self._unused]
        return [*zip(self._variables, states, strict=True), *unused]


def take_metrics(placed: Placed) -> tuple[Array, ...]:
    """The states of the metrics, added up over replicas, which then begin anew."""
    of_replicas = [[each.numpy() for each in replica.metrics] for replica in placed.replicas]
    for replica in placed.replicas:
        replica.reset_metrics()
    placed.wait()
    return tuple(np.sum(each, axis=0, dtype=each[0].dtype) for each in zip(*of_replicas, strict=True))
