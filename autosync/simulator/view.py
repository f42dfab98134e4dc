"""Inputs made of strategies: by a base simulator's figures, in the detail asked for, less what is withheld."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from autosync.cost import AnalyticSimulator, Blended, Coefficients, Replay, Simulator, StepFigures
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

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

POOLED_OF_TOPOLOGY = [POOLED_INPUTS.index(name) for name in TOPOLOGY_POOLED]
OF_TOPOLOGY = [VARIABLE_INPUTS.index(name) for name in TOPOLOGY_VARIABLE_INPUTS]
SERVERS_OF_TOPOLOGY = [place for place, name in enumerate(SERVER_INPUTS) if name.startswith("topology_")]


@dataclass(frozen=True)
class View:
    """Inputs in `detail`. The replay's figures are among them when there is one in `base`; they are 0 otherwise."""

    base: Simulator
    detail: Detail
    ablation: Ablation

    def of(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> tuple[Inputs, FloatArray]:
        """Inputs, and what the base predicts, log seconds (n,). Raises `SpecError` when a strategy does not fit."""
        features, base, figures = self._costed(model, cluster, strategies)
        pooled = np.empty((len(strategies), len(POOLED_INPUTS)))
        variables, graphs = dict[int, torch.Tensor](), dict[int, Graph]()
        for replicas, places in _by_replicas(strategies).items():
            encoder, chosen = Encoder(model, cluster, replicas), [figures[place] for place in places]
            known = [each for each in chosen if each is not None]
            pooled[places] = encoder.pooled(features[places], np.exp(base[places]), known)
            if self.detail == Detail.POOLED:
                continue
            for place, each in zip(places, chosen, strict=True):
                variables[place], graph = self._detailed(encoder, strategies[place], each)
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

    def _costed(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray, list[StepFigures | None]]:
        """The closed form's features, the base's log seconds, and the replay's figures if they are to be seen."""
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
        seconds = np.log([max(each.step_seconds, 1e-9) for each in figures])
        if isinstance(self.base, Blended):
            seconds = self.base.with_replayed(seconds, model, cluster, strategies)
        return features, seconds, [*figures]

    def _detailed(
        self, encoder: Encoder, strategy: Strategy, figures: StepFigures | None
    ) -> tuple[torch.Tensor, Graph | None]:
        shards, order = encoder.shards(strategy), self._order(encoder.model, strategy)
        variables = encoder.variables(shards, figures)
        if self.ablation.without_topology:
            variables[:, OF_TOPOLOGY] = 0.0
        if self.detail != Detail.GRAPH:
            return torch.from_numpy(variables[order]), None
        # Nodes keep their numbers; the order shows in the edges of data flow.
        graph = encoder.graph(shards, order, figures, topology=not self.ablation.without_topology)
        return torch.from_numpy(variables), self._graph(graph)

    def _order(self, model: ModelSpec, strategy: Strategy) -> IntArray:
        order = list(range(len(model.variables)))
        if self.ablation.shuffle_variables:
            random.Random(strategy.digest).shuffle(order)
        return np.array(order, dtype=np.intp)

    def _graph(self, found: GraphEncoding) -> Graph:
        servers = found.servers
        if self.ablation.without_topology:
            servers[:, SERVERS_OF_TOPOLOGY] = 0.0
        return Graph(
            torch.from_numpy(servers),
            torch.from_numpy(found.buckets),
            torch.from_numpy(found.links),
            torch.from_numpy(found.edge_inputs),
            torch.from_numpy(found.edges),
            found.switches,
        )


def _by_replicas(strategies: Sequence[Strategy]) -> dict[tuple[str, ...], list[int]]:
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, strategy in enumerate(strategies):
        groups.setdefault(strategy.replicas, []).append(place)
    return groups
