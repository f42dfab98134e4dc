"""Communication is divided among the passes that run meanwhile and the times without any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay import Replay
from autosync.spec import AllReduce, ClusterSpec, ModelProfile, ModelSpec, Pace, Strategy, Variable, VariableStrategy
from tests import cases

FREE = ReplayCoefficients(*[0.0] * 7, core_seconds_per_shard=0.0, overlap=1.0, link_overhead=0.0)
EDGES = {
    f"{name} on {make.__name__}": (name, make)
    for name in BASELINES
    for make in (cases.star_cluster, cases.rack_cluster)
}


def paced(cluster: ClusterSpec, *seconds: float) -> ClusterSpec:
    """The cluster with passes of `seconds`, in turn."""
    nodes = [replace(node, pace=Pace(0.0, seconds[place % len(seconds)])) for place, node in enumerate(cluster.nodes)]
    return replace(cluster, nodes=tuple(nodes))


def halves() -> ModelSpec:
    """Two variables of 1 MB, released in the middle and at the end of the backward pass, which is 3/4 of a step."""
    variables = tuple(Variable(name, (250_000,), "float32", order) for order, name in enumerate(("late", "early")))
    profile = ModelProfile(0.1, 0.3, {"late": 0.5, "early": 1.0})
    return ModelSpec("halves", 8, "SGD", 0, variables, profile=profile)


def each_alone(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable in a bucket of its own."""
    decisions = [VariableStrategy(name, (AllReduce(group),)) for group, name in enumerate(model.by_name)]
    return Strategy(tuple(map(str, cluster.replica_devices)), tuple(decisions))


@pytest.mark.parametrize(("baseline", "make"), EDGES.values(), ids=EDGES)
def test_the_parts_of_the_communication_are_those_of_the_figures(baseline, make) -> None:
    model, cluster = cases.ncf_like_model(), make()
    strategy = BASELINES[baseline](model, cluster)
    overlap, figures = Replay().overlap(model, cluster, strategy), Replay().figures(model, cluster, strategy)
    assert overlap.step_seconds == pytest.approx(figures.step_seconds)
    assert overlap.communication_seconds == pytest.approx(figures.communication_seconds)
    assert overlap.exposure_seconds == pytest.approx(figures.exposed_seconds)
    assert overlap.forward_seconds == 0.0  # a step ends with all its values
    assert overlap.backward_seconds > 0
    pulled = [name for name, variable in model.by_name.items() if variable.sparse and strategy.by_name[name].servers]
    assert (overlap.before_seconds > 0) is bool(pulled)
    assert list(overlap.passes) == [node.name for node in cluster.nodes]
    assert overlap.last is not None
    assert overlap.last.end == pytest.approx(overlap.step_seconds)


def test_gradients_in_the_middle_of_the_pass_are_hidden_and_the_last_are_exposed() -> None:
    model, cluster = halves(), paced(cases.star_cluster(2, gbit_per_s=0.2), 0.4)
    overlap = Replay(FREE).overlap(model, cluster, each_alone(model, cluster))
    over_links = 1e6 * 8 / 0.2e9  # two nodes send a half twice: 40 ms each
    assert overlap.backward_seconds == pytest.approx(over_links, rel=0.05)
    assert overlap.after_seconds == pytest.approx(over_links, rel=0.05)
    assert overlap.before_seconds == 0.0
    assert overlap.outside_seconds == pytest.approx(overlap.step_seconds - 0.4, abs=2e-3)
    assert overlap.last is not None
    assert overlap.last.variables == ("early",)
    first, *_, last = overlap.passes["node1"]
    assert (first.kind, last.kind) == ("forward", "backward")
    assert (first.begin, first.end, last.end) == pytest.approx((0.0, 0.1, 0.4), abs=1e-3)


def test_communication_during_the_passes_of_a_straggler_is_hidden() -> None:
    model, cluster = cases.ncf_like_model(), cases.star_cluster(4, gbit_per_s=0.2)
    order = {variable.name: (1 + variable.ready_order) / len(model.variables) for variable in model.variables}
    model = replace(model, profile=ModelProfile(0.1, 0.3, order))
    straggling = paced(cluster, 0.1, 0.1, 0.1, 0.5)
    overlap = Replay().overlap(model, straggling, BASELINES["parallax"](model, straggling))
    ends = {node: spans[-1].end for node, spans in overlap.passes.items()}
    assert max(ends["node0"], ends["node1"], ends["node2"]) + 0.3 < ends["node3"]
    assert overlap.outside_seconds == pytest.approx(overlap.step_seconds - 0.5, abs=2e-3)
    alike = Replay().overlap(model, paced(cluster, 0.1), BASELINES["parallax"](model, straggling))
    assert overlap.after_seconds < alike.after_seconds
    assert overlap.backward_seconds > alike.backward_seconds


def test_links_are_busy_for_their_share_of_the_step() -> None:
    model, cluster = cases.ncf_like_model(), cases.rack_cluster()
    strategy = BASELINES["parallax"](model, cluster)
    figures = Replay().figures(model, cluster, strategy)
    busy = dict.fromkeys((f"link {link.source} > {link.target}" for link in cluster.links), 0.0)
    for link, spans in Replay().links(model, cluster, strategy):
        assert {span.kind for span in spans} <= {"pull", "push", "send"}
        assert all(np.diff([span.begin for span in spans]) >= 0)
        busy[f"link {link.source} > {link.target}"] = sum(span.end - span.begin for span in spans)
    shares = dict(zip(figures.resources, figures.utilization.tolist(), strict=True))
    assert busy == pytest.approx({name: shares[name] * figures.step_seconds for name in busy})
    assert len(Replay().links(model, cluster, strategy)) == sum(seconds > 0 for seconds in busy.values())


def test_one_replica_has_no_communication() -> None:
    cluster = cases.local_cluster()
    model, alone = cases.mlp_model(), [str(cluster.replica_devices[0])]
    strategy = Strategy(tuple(alone), each_alone(model, cluster).variables)
    overlap = Replay().overlap(model, cluster, strategy)
    assert overlap.communication_seconds == pytest.approx(0.0, abs=2e-3)  # its own update at most
