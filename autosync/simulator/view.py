"""Network inputs of strategies, made with a base simulator's figures, in the requested detail, minus ablated inputs."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from autosync.cost import AnalyticSimulator, Blended, Coefficients, Replay, Simulator, StepFigures
from autosync.layout.apart import split_model, split_strategy
from autosync.numeric import FloatArray, IndexArray
from autosync.simulator.encoding import (
    POOLED_INPUTS,
    SERVER_INPUTS,
    TOPOLOGY_POOLED,
    TOPOLOGY_VARIABLE_INPUTS,
    VARIABLE_INPUTS,
    Encoder,
    GraphEncoding,
    closed_form_coefficients,
)
from autosync.simulator.encoding.pooled import feature_table, features_and_seconds
from autosync.simulator.inputs import Detail, Graph, Inputs
from autosync.simulator.settings import Ablation
from autosync.spec import ClusterSpec, ModelSpec, Strategy

POOLED_OF_TOPOLOGY = [POOLED_INPUTS.index(name) for name in TOPOLOGY_POOLED]
OF_TOPOLOGY = [VARIABLE_INPUTS.index(name) for name in TOPOLOGY_VARIABLE_INPUTS]
SERVERS_OF_TOPOLOGY = [place for place, name in enumerate(SERVER_INPUTS) if name.startswith("topology_")]


@dataclass(frozen=True)
class View:
    """Inputs in `detail`. They include the replay's figures if `base` contains a replay, and zeros otherwise."""

    base: Simulator
    detail: Detail
    ablation: Ablation

    def of(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> tuple[Inputs, FloatArray]:
        """Return the inputs and the base's log seconds (n,). Raises `SpecError` if a strategy does not fit."""
        features, base, figures = self._costs(model, cluster, strategies)
        pooled = np.empty((len(strategies), len(POOLED_INPUTS)))
        variables, graphs = dict[int, torch.Tensor](), dict[int, Graph]()
        for (replicas, rows_apart), places in _in_groups(strategies).items():
            encoder = Encoder(split_model(model, rows_apart) if rows_apart else model, cluster, replicas)
            chosen = [figures[place] for place in places]
            known = [step_figures for step_figures in chosen if step_figures is not None]
            pooled[places] = encoder.pool(features[places], np.exp(base[places]), known)
            if self.detail == Detail.POOLED:
                continue
            for place, step_figures in zip(places, chosen, strict=True):
                variables[place], graph = self._details(encoder, split_strategy(strategies[place]), step_figures)
                if graph is not None:
                    graphs[place] = graph
        if self.ablation.without_topology:
            pooled[:, POOLED_OF_TOPOLOGY] = 0.0
        inputs = Inputs(
            torch.from_numpy(pooled),
            tuple(variables[place] for place in range(len(variables))),
            tuple(graphs[place] for place in range(len(graphs))),
        )
        return inputs, base

    def _costs(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray, list[StepFigures | None]]:
        """Return the closed form's features, the base's log seconds, and the replay's figures if networks may read
        them.
        """
        nothing: list[StepFigures | None] = [None] * len(strategies)
        if isinstance(self.base, AnalyticSimulator):
            features, seconds = features_and_seconds(model, cluster, strategies, self.base.coefficients)
            return features, np.log(seconds), nothing
        if not isinstance(self.base, Replay | Blended):
            features = feature_table(model, cluster, strategies, Coefficients())
            return features, self.base.predict(model, cluster, strategies), nothing
        replay = self.base if isinstance(self.base, Replay) else self.base.replay
        features = feature_table(model, cluster, strategies, closed_form_coefficients(replay.coefficients))
        if self.ablation.without_replay:
            return features, self.base.predict(model, cluster, strategies), nothing
        figures = list(replay.all_figures(model, cluster, strategies))
        seconds = np.log([max(figure.step_seconds, 1e-9) for figure in figures])
        if isinstance(self.base, Blended):
            seconds = self.base.with_replayed(seconds, model, cluster, strategies)
        return features, seconds, [*figures]

    def _details(
        self, encoder: Encoder, strategy: Strategy, figures: StepFigures | None
    ) -> tuple[torch.Tensor, Graph | None]:
        shards, order = encoder.shards(strategy), self._order(encoder.model, strategy)
        variables = encoder.variables(shards, figures)
        if self.ablation.without_topology:
            variables[:, OF_TOPOLOGY] = 0.0
        if self.detail != Detail.GRAPH:
            return torch.from_numpy(variables[order]), None
        # Nodes keep their numbers; only the data-flow edges depend on the order.
        graph = encoder.graph(shards, order, figures, topology=not self.ablation.without_topology)
        return torch.from_numpy(variables), self._graph(graph)

    def _order(self, model: ModelSpec, strategy: Strategy) -> IndexArray:
        order = list(range(len(model.variables)))
        if self.ablation.shuffle_variables:
            random.Random(strategy.digest).shuffle(order)
        return np.array(order, dtype=np.intp)

    def _graph(self, encoding: GraphEncoding) -> Graph:
        servers = encoding.servers
        if self.ablation.without_topology:
            servers[:, SERVERS_OF_TOPOLOGY] = 0.0
        return Graph(
            torch.from_numpy(servers),
            torch.from_numpy(encoding.buckets),
            torch.from_numpy(encoding.links),
            torch.from_numpy(encoding.edge_inputs),
            torch.from_numpy(encoding.edges),
            encoding.switches,
        )


def _in_groups(strategies: Sequence[Strategy]) -> dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]]:
    """The places of the strategies with the same replicas and the same rows apart."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for place, strategy in enumerate(strategies):
        groups.setdefault((strategy.replicas, strategy.rows_apart), []).append(place)
    return groups
