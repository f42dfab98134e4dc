"""The loss on batches that nothing is trained on: what a run towards a target is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.engine.capture.captured import CapturedModel
from autosync.engine.capture.graph_function import GraphFunction

Array = npt.NDArray[Any]

BATCHES = 16
"""Batches of each replica that the loss is the mean over: of 16 examples with four replicas 1024."""


@final
class Evaluation:
    """The mean loss over batches that the model draws for seeds which no step has: steps before the first."""

    def __init__(self, captured: CapturedModel, replicas: int) -> None:
        import tensorflow as tf

        draw, gradient = captured.batch.callable(), captured.gradient
        self._captured = captured
        self._loss = GraphFunction(gradient.graph, gradient.inputs, gradient.outputs[:1]).callable()
        self._lookups = captured.lookups.callable() if captured.lookup_of else None
        seeds = [(-1 - number, replica) for number in range(BATCHES) for replica in range(replicas)]
        self._batches = [list(draw(tf.constant(each, tf.int32))) for each in seeds]

    def loss(self, values: Mapping[str, Array], state: tuple[Array, ...]) -> float:
        """The loss at `values`, by variable, with a replica's own `state`; as in training, dropout included."""
        import tensorflow as tf

        given = [tf.constant(values[each.name]) for each in self._captured.spec.variables]
        rest = [tf.constant(each) for each in (*state, *self._captured.initial_metrics)]
        return float(np.mean([self._of(given, rest, batch) for batch in self._batches], dtype=np.float64))

    def _of(self, values: list[Any], rest: list[Any], batch: list[Any]) -> float:
        import tensorflow as tf

        rows, positions = list(values), []
        raw = [] if self._lookups is None else self._lookups(*batch)
        distinct: dict[int, Any] = {}
        for variable in self._captured.lookup_of:
            of_variable = [
                tf.reshape(ids, [-1])
                for number, ids in zip(self._captured.lookup_of, raw, strict=True)
                if number == variable
            ]
            distinct[variable] = tf.sort(tf.unique(tf.concat(of_variable, 0)).y)
            rows[variable] = tf.gather(values[variable], distinct[variable])
        for variable, ids in zip(self._captured.lookup_of, raw, strict=True):
            place = tf.searchsorted(distinct[variable], tf.reshape(ids, [-1]), out_type=ids.dtype)
            positions.append(tf.reshape(place, tf.shape(ids)))
        return float(self._loss(*rows, *rest, *batch, *positions)[0])
