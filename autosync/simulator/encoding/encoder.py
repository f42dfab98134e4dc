"""Encodes strategies of one model on one cluster; shared parts are computed once."""

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np

from autosync.cost.capacity import ready_fractions
from autosync.cost.closed_form.tables import CostTables, cost_tables
from autosync.cost.replay.figures import StepFigures
from autosync.layout.fusion import Layout
from autosync.numeric import FloatArray, IndexArray
from autosync.simulator.encoding.graph import GraphEncoding, graph_encoding
from autosync.simulator.encoding.places import ClusterShape, cluster_shape_of
from autosync.simulator.encoding.pooled import REPLAY_POOLED, replay_pooled, shape_pooled
from autosync.simulator.encoding.shards import ShardColumns, shard_columns
from autosync.simulator.encoding.variables import VariableWeights, variable_inputs
from autosync.spec import ClusterSpec, ModelSpec, Strategy


@final
class Encoder:
    """Encodes strategies that fit `model` and `cluster` and have the same `replicas`."""

    def __init__(self, model: ModelSpec, cluster: ClusterSpec, replicas: tuple[str, ...]) -> None:
        self.model = model
        self.cluster = cluster
        self.replicas = replicas

    def pool(self, features: FloatArray, seconds: FloatArray, figures: Sequence[StepFigures] | None) -> FloatArray:
        """Return `POOLED_INPUTS` of n strategies with `features` (n, f) of the closed form and steps of
        `seconds` (n,).
        """
        shape = shape_pooled(self._cluster_shape, len(self.replicas), self.model.gradient_bytes, seconds)
        replayed = np.zeros((len(features), len(REPLAY_POOLED)))
        for row, step_figures in zip(replayed, figures or (), strict=False):
            row[:] = replay_pooled(step_figures, self._cluster_shape, self._weights.gradient_bytes)
        return np.concatenate([features, shape, replayed], axis=1)

    def shards(self, strategy: Strategy) -> ShardColumns:
        decided, slices = strategy.by_name, self._tables.slices
        layout = Layout.from_decisions(slices, [decided[variable.name] for variable in self.model.variables])
        return shard_columns(layout, self._server_numbers)

    def variables(self, shards: ShardColumns, figures: StepFigures | None) -> FloatArray:
        """Return `VARIABLE_INPUTS`, float64 (variables, inputs), in the model's order."""
        return variable_inputs(self._weights, shards, self._cluster_shape, figures)

    def graph(
        self, shards: ShardColumns, order: IndexArray, figures: StepFigures | None, topology: bool = True
    ) -> GraphEncoding:
        """Return the strategy as a graph; see `graph_encoding`."""
        return graph_encoding(self._weights, shards, order, self._cluster_shape, figures, topology)

    @cached_property
    def _cluster_shape(self) -> ClusterShape:
        return cluster_shape_of(self.cluster, self.replicas)

    @cached_property
    def _server_numbers(self) -> dict[str, int]:
        return {str(device): number for number, device in enumerate(self.cluster.server_devices)}

    @cached_property
    def _tables(self) -> CostTables:
        return cost_tables(self.model, self.cluster, self.replicas)

    @cached_property
    def _weights(self) -> VariableWeights:
        variables, fractions = self.model.variables, ready_fractions(self.model)
        held = np.array([variable.bytes for variable in variables], dtype=np.float64)
        whole = [self._tables.slices.of(variable.name, None)[0] for variable in variables]
        gradient = np.array([slice_.weighs.gradient_bytes for slice_ in whole])
        return VariableWeights(
            np.maximum(gradient, 1.0),
            np.array([variable.sparse for variable in variables], dtype=np.float64),
            np.minimum(gradient / held, 1.0),
            np.array([fractions[variable.name] for variable in variables]),
        )
