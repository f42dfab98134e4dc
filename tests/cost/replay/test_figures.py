"""The figures of a replay are in order, within the step, and of the right size."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay import Replay
from autosync.spec import AllReduce, ParameterServer, Strategy, VariableStrategy
from search_spaces.default import SPACE
from tests import cases
from tests.cost.cases import all_by, dense_model, strategy_of

FREE = ReplayCoefficients(*[0.0] * 7, core_seconds_per_shard=0.0, overlap=1.0, link_overhead=0.0)


@pytest.mark.parametrize("make", [cases.star_cluster, cases.uneven_cluster, cases.gpu_cluster])
def test_a_variable_is_ready_then_sent_then_arrives_before_the_step_ends(make) -> None:
    model, cluster, replay = cases.ncf_like_model(), make(), Replay()
    space, rng = SPACE.bind(model, cluster), random.Random(0)
    for strategy in [space.sample(rng) for _ in range(10)]:
        found = replay.figures(model, cluster, strategy)
        variables = found.variables
        assert (variables.ready <= variables.arrived + 1e-9).all()
        assert (variables.first_sent <= variables.arrived + 1e-9).all()
        assert variables.arrived.max() <= found.step_seconds + 1e-9
        assert variables.slack == pytest.approx(found.step_seconds - variables.arrived)
        assert variables.slack.min() >= -1e-12
        assert (found.utilization <= 1 + 1e-9).all()
        assert found.exposed_seconds <= found.communication_seconds + 1e-12
        assert np.exp(replay.predict(model, cluster, [strategy])[0]) == pytest.approx(found.step_seconds)


def test_a_ring_on_an_idle_cluster_keeps_all_links_busy() -> None:
    cluster = cases.star_cluster(4)
    found = Replay(FREE).figures(dense_model(50_000_000), cluster, strategy_of(cluster, AllReduce(0)))
    by_name = dict(zip(found.resources, found.utilization.tolist(), strict=True))
    for node in range(4):
        assert by_name[f"link node{node} > switch"] == pytest.approx(1.0, abs=0.01)
        assert by_name[f"link switch > node{node}"] == pytest.approx(1.0, abs=0.01)
        assert by_name[f"link node{node} > node{node}"] == 0.0
    assert found.busiest_link == pytest.approx(1.0, abs=0.01)
    assert found.busiest_server == 0.0


def test_the_busiest_server_is_the_one_that_updates() -> None:
    cluster = cases.star_cluster(4)
    costly = replace(FREE, core_seconds_per_updated_byte=1e-7)
    found = Replay(costly).figures(
        dense_model(1_000_000), cluster, strategy_of(cluster, ParameterServer("node2/cpu:0"))
    )
    by_name = dict(zip(found.resources, found.utilization.tolist(), strict=True))
    assert found.busiest_server == by_name["server node2/cpu:0"] > 0.2
    assert by_name["server node0/cpu:0"] == 0.0


def test_gradients_that_arrive_early_have_slack() -> None:
    model, cluster = cases.mlp_model((64, 4096, 4096, 10)), cases.star_cluster(4)
    decided = tuple(
        VariableStrategy(variable.name, (AllReduce(place),)) for place, variable in enumerate(model.variables)
    )
    found = Replay().figures(model, cluster, Strategy(tuple(map(str, cluster.replica_devices)), decided))
    small = [place for place, variable in enumerate(model.variables) if variable.name == "dense_2/bias"]
    assert found.variables.slack[small[0]] > 0.5 * found.step_seconds
    together = Replay().figures(model, cluster, all_by(model, cluster, AllReduce(0)))
    assert together.variables.slack == pytest.approx([0.0] * 6)
