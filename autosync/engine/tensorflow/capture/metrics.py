"""Keras metrics as part of a training step: their states on every replica, and their results over all replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from autosync.errors import ModelError
from autosync.numeric import AnyArray
from autosync.spec import said


@final
class TaskMetrics:
    """The metrics of a task, given by name or as Keras objects, as functions of their states.

    States are summed over replicas, which is correct because Keras's metrics consist of sums and counts of examples.
    """

    def __init__(self, metrics: Any, targets: Any, outputs: Any, weighted: bool = False) -> None:
        """`metrics` are an argument of `keras.Model.compile`; `targets` and `outputs` belong to an example batch.

        If `weighted`, targets are pairs (targets, weights of examples), and metrics ignore the weights, as in Keras.
        Raises `ModelError` for metrics that Keras does not take.
        """
        import keras

        self._weighted = weighted

        # Only inside a compiled model does Keras know which accuracy "accuracy" means, and the output of each metric.
        self._holder = keras.Sequential(name="metrics")
        try:
            self._holder.compile(loss=None, metrics=metrics)
            self._holder.compute_metrics(None, targets[0] if weighted else targets, outputs, None)
        except Exception as error:  # any error of Keras or of a user's metric
            reason = f"{type(error).__name__}: {said(error)}"
            raise ModelError(f"Metrics must be what keras.Model.compile takes, but {reason}") from error
        # Every compiled model also has a counter for the loss, which is not used here.
        self._unused = [
            variable for metric in self._holder.metrics if metric.name == "loss" for variable in metric.variables
        ]
        unused = {id(variable) for variable in self._unused}
        self._variables = [variable for variable in self._holder.metrics_variables if id(variable) not in unused]
        self._holder.reset_metrics()

    @property
    def initial(self) -> tuple[AnyArray, ...]:
        """The states before the first example."""
        return tuple(np.asarray(variable.numpy()) for variable in self._variables)

    def update(self, states: Sequence[Any], targets: Any, outputs: Any) -> list[Any]:
        """Return the states after a batch; a pure function for tracing."""
        import keras

        targets = targets[0] if self._weighted else targets
        with keras.StatelessScope(state_mapping=self._mapping(states)) as scope:
            self._holder.compute_metrics(None, targets, outputs, None)
        return [scope.get_current_value(variable) for variable in self._variables]

    def results(self, states: Sequence[AnyArray]) -> dict[str, float]:
        """Compute the metrics from their states, by name. A metric with several numbers is reported as their mean."""
        import keras
        import tensorflow as tf

        values = [tf.constant(state, variable.dtype) for state, variable in zip(states, self._variables, strict=True)]
        with keras.StatelessScope(state_mapping=self._mapping(values)):
            results = self._holder.get_metrics_result()
        return {name: float(np.mean(value)) for name, value in results.items() if name != "loss"}

    def _mapping(self, states: Sequence[Any]) -> list[tuple[Any, Any]]:
        import tensorflow as tf

        unused = [(variable, tf.zeros(variable.shape, variable.dtype)) for variable in self._unused]
        return [*zip(self._variables, states, strict=True), *unused]
