"""The inputs that networks see of strategies, and the inputs that ablations withhold."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator, Replay
from autosync.simulator import Ablation
from autosync.simulator.encoding import (
    POOLED_INPUTS,
    REPLAY_POOLED,
    REPLAY_VARIABLE_INPUTS,
    TOPOLOGY_POOLED,
    VARIABLE_INPUTS,
)
from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.view import View
from tests.simulator.cases import CLUSTER, MODEL
from tests.space.samples import sampled

STRATEGIES = sampled(MODEL, CLUSTER, 4)
POOLED_OF_TOPOLOGY = [POOLED_INPUTS.index(name) for name in TOPOLOGY_POOLED]


def seen(ablation: Ablation, detail: Detail = Detail.GRAPH) -> Inputs:
    return View(Replay(), detail, ablation).of(MODEL, CLUSTER, STRATEGIES)[0]


@pytest.mark.parametrize("base", [Replay(), AnalyticSimulator()], ids=["replay", "closed form"])
def test_what_the_base_predicts_comes_with_the_inputs(base) -> None:
    result = View(base, Detail.POOLED, Ablation()).of(MODEL, CLUSTER, STRATEGIES)[1]
    np.testing.assert_array_equal(result, base.predict(MODEL, CLUSTER, STRATEGIES))


def test_without_the_replay_its_figures_are_zero_and_it_stays_the_base() -> None:
    result, base = View(Replay(), Detail.GRAPH, Ablation(without_replay=True)).of(MODEL, CLUSTER, STRATEGIES)
    assert not result.pooled[:, -len(REPLAY_POOLED) :].any()
    assert not any(rows[:, -len(REPLAY_VARIABLE_INPUTS) :].any() for rows in result.variables)
    assert not any(graph.links[:, -1].any() for graph in result.graphs)
    np.testing.assert_array_equal(base, Replay().predict(MODEL, CLUSTER, STRATEGIES))
    assert seen(Ablation()).pooled[:, -len(REPLAY_POOLED) :].any()


def test_without_the_topology_there_are_no_links_and_all_nodes_are_alike() -> None:
    result, whole = seen(Ablation(without_topology=True)), seen(Ablation())
    assert not result.pooled[:, POOLED_OF_TOPOLOGY].any()
    assert whole.pooled[:, POOLED_OF_TOPOLOGY].any()
    for graph in result.graphs:
        assert len(graph.links) == graph.switches == 0
        assert not graph.servers[:, 2:4].any()


def test_shuffled_variables_are_the_same_in_another_order() -> None:
    result, whole = (seen(ablation, Detail.VARIABLES) for ablation in (Ablation(shuffle_variables=True), Ablation()))
    for shuffled, plain in zip(result.variables, whole.variables, strict=True):
        assert shuffled.shape == plain.shape == (len(MODEL.variables), len(VARIABLE_INPUTS))
        assert sorted(shuffled.tolist()) == sorted(plain.tolist())
        assert shuffled.tolist() != plain.tolist()


def test_no_more_is_made_than_a_network_reads() -> None:
    assert seen(Ablation(), Detail.POOLED).variables == ()
    assert seen(Ablation(), Detail.VARIABLES).graphs == ()
