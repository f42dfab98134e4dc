"""The loss on held-out batches, which decides whether a run has reached its target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

import numpy as np
import tensorflow as tf

from autosync.engine.tensorflow.capture.graph_function import GraphFunction
from autosync.numeric import AnyArray

if TYPE_CHECKING:
    from autosync.engine.tensorflow.step.replica import CompiledModel

BATCHES = 16
"""Held-out batches a replica. With batches of 16 examples and four replicas, the loss covers 1024 examples."""


@final
class TensorFlowEvaluation:
    """The mean loss over held-out batches. Their seeds have negative step numbers, which no training step uses."""

    def __init__(self, model: CompiledModel, replicas: int) -> None:
        gradient = model.captured.gradient
        self._model = model
        self._loss = GraphFunction(gradient.graph, gradient.inputs, gradient.outputs[:1]).callable()
        seeds = [(-1 - number, replica) for number in range(BATCHES) for replica in range(replicas)]
        self._batches = [list(model.batch(tf.constant(seed, tf.int32))) for seed in seeds]

    def loss(self, values: Mapping[str, AnyArray], state: tuple[AnyArray, ...]) -> float:
        """The loss at `values`, by variable, with a replica's untrained `state`; as in training, with dropout."""
        captured = self._model.captured
        whole = [tf.constant(values[variable.name]) for variable in captured.spec.variables]
        rest = [tf.constant(array) for array in (*state, *captured.initial_metrics)]
        losses = []
        for batch in self._batches:
            lookups = self._model.look_up(batch)
            rows = [
                tf.gather(value, lookups.ids[number]) if number in lookups.ids else value
                for number, value in enumerate(whole)
            ]
            losses.append(float(self._loss(*rows, *rest, *batch, *self._model.positions(lookups))[0]))
        return float(np.mean(losses, dtype=np.float64))
