"""The loss on batches that nothing is trained on: what a run towards a target is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from autosync.engine.capture.graph_function import GraphFunction

if TYPE_CHECKING:
    from autosync.engine.step.replica import CompiledModel

Array = npt.NDArray[Any]

BATCHES = 16
"""Batches of each replica that the loss is the mean over: of 16 examples with four replicas 1024."""


@final
class Evaluation:
    """The mean loss over batches that the model draws for seeds which no step has: steps before the first."""

    def __init__(self, model: CompiledModel, replicas: int) -> None:
        import tensorflow as tf

        gradient = model.captured.gradient
        self._model = model
        self._loss = GraphFunction(gradient.graph, gradient.inputs, gradient.outputs[:1]).callable()
        seeds = [(-1 - number, replica) for number in range(BATCHES) for replica in range(replicas)]
        self._batches = [list(model.batch(tf.constant(each, tf.int32))) for each in seeds]

    def loss(self, values: Mapping[str, Array], state: tuple[Array, ...]) -> float:
        """The loss at `values`, by variable, with a replica's own `state`; as in training, dropout included."""
        import tensorflow as tf

        captured = self._model.captured
        given = [tf.constant(values[each.name]) for each in captured.spec.variables]
        rest = [tf.constant(each) for each in (*state, *captured.initial_metrics)]
        losses = []
        for batch in self._batches:
            found = self._model.look_up(batch)
            rows = [tf.gather(each, found.ids[n]) if n in found.ids else each for n, each in enumerate(given)]
            losses.append(float(self._loss(*rows, *rest, *batch, *self._model.positions(found))[0]))
        return float(np.mean(losses, dtype=np.float64))
