"""Encoding strategies of one model on one cluster: what they share is worked out once."""

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import ready_fractions
from autosync.cost.closed_form.tables import CostTables, cost_tables
from autosync.cost.replay.figures import StepFigures
from autosync.layout.together import Layout
from autosync.simulator.encoding.graph import GraphEncoding, graph_encoding
from autosync.simulator.encoding.places import Places, places_of
from autosync.simulator.encoding.pooled import REPLAY_POOLED, replay_pooled, shape_pooled
from autosync.simulator.encoding.shards import ShardColumns, shard_columns
from autosync.simulator.encoding.variables import VariableWeights, variable_inputs
from autosync.spec import ClusterSpec, ModelSpec, Strategy

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


@final
class Encoder:
    """Encodes strategies that fit `model` and `cluster` and have the same `replicas`."""

    def __init__(self, model: ModelSpec, cluster: ClusterSpec, replicas: tuple[str, ...]) -> None:
        self.model = model
        self.cluster = cluster
        self.replicas = replicas

    def pooled(self, features: FloatArray, seconds: FloatArray, figures: Sequence[StepFigures] | None) -> FloatArray:
        """`POOLED_INPUTS` of n strategies with `features` (n, f) of the closed form and steps of `seconds` (n,)."""
        shape = shape_pooled(self._places, len(self.replicas), self.model.gradient_bytes, seconds)
        replayed = np.zeros((len(features), len(REPLAY_POOLED)))
        for row, each in zip(replayed, figures or (), strict=False):
            row[:] = replay_pooled(each, self._places, self._weights.gradient_bytes)
        return np.concatenate([features, shape, replayed], axis=1)

    def shards(self, strategy: Strategy) -> ShardColumns:
        decided, slices = strategy.by_name, self._tables.slices
        layout = Layout.made(slices, [decided[each.name] for each in self.model.variables])
        return shard_columns(layout, self._server_numbers)

    def variables(self, shards: ShardColumns, figures: StepFigures | None) -> FloatArray:
        """`VARIABLE_INPUTS`, float64 (variables, inputs), in the model's order."""
        return variable_inputs(self._weights, shards, self._places, figures)

    def graph(
        self, shards: ShardColumns, order: IntArray, figures: StepFigures | None, topology: bool = True
    ) -> GraphEncoding:
        """The strategy as a graph; see `graph_encoding`."""
        return graph_encoding(self._weights, shards, order, self._places, figures, topology)

    @cached_property
    def _places(self) -> Places:
        return places_of(self.cluster, self.replicas)

    @cached_property
    def _server_numbers(self) -> dict[str, int]:
        return {str(device): number for number, device in enumerate(self.cluster.server_devices)}

    @cached_property
    def _tables(self) -> CostTables:
        return cost_tables(self.model, self.cluster, self.replicas)

    @cached_property
    def _weights(self) -> VariableWeights:
        variables, fractions = self.model.variables, ready_fractions(self.model)
        held = np.array([each.bytes for each in variables], dtype=np.float64)
        whole = [self._tables.slices.of(each.name, None)[0] for each in variables]
        gradient = np.array([each.weighs.gradient_bytes for each in whole])
        return VariableWeights(
            np.maximum(gradient, 1.0),
            np.array([each.sparse for each in variables], dtype=np.float64),
            np.minimum(gradient / held, 1.0),
            np.array([fractions[each.name] for each in variables]),
        )
