"""The bound of a step: what it is by hand, and that nothing sampled goes below it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosync.cost import Replay, step_bound, traffic
from autosync.spec import ClusterSpec, ModelProfile, ModelSpec, Pace, SharedCores, Spread
from tests.cases import (
    bert_like_model,
    changing,
    local_cluster,
    mlp_model,
    ncf_like_model,
    rack_cluster,
    racks,
    star_cluster,
    uneven_cluster,
)
from tests.space.samples import sampled

MODEL = mlp_model()
THIN = replace(
    MODEL, variables=tuple(replace(each, factor_rows=4) if len(each.shape) == 2 else each for each in MODEL.variables)
)
PROFILED = replace(MODEL, profile=ModelProfile(0.1, 0.3, {each.name: 1.0 for each in MODEL.variables}))


@pytest.mark.parametrize(
    "cluster",
    [star_cluster(2), star_cluster(4), uneven_cluster(), rack_cluster(), racks(2, 2, 2), racks(3, 1)],
    ids=["2", "4", "uneven", "racks", "three racks", "unlike racks"],
)
@pytest.mark.parametrize(
    "model",
    [MODEL, THIN, bert_like_model(), bert_like_model(sparse=False), ncf_like_model()],
    ids=["mlp", "thin", "bert", "dense bert", "ncf"],
)
def test_no_exact_strategy_keeps_all_links_busy_for_less(model: ModelSpec, cluster: ClusterSpec) -> None:
    rates = np.array([link.bytes_per_second for link in cluster.links])
    exact = [each for each in sampled(model, cluster, 60) if not each.changes_statistics]
    busy = [max(traffic(model, cluster, each).bytes / rates) for each in exact]
    assert len(busy) > 20
    assert 0 < step_bound(model, cluster).seconds <= min(busy) * (1 + 1e-9)  # some are at the bound


STEADY = Spread()
PACED = replace(
    MODEL, profile=ModelProfile(0.1, 0.3, {each.name: (1 + each.ready_order) / 6 for each in MODEL.variables})
)


def paced(cluster: ClusterSpec, *seconds: float, spread: Spread = STEADY) -> ClusterSpec:
    """The cluster with passes of these seconds on its nodes, of the last on all that are left."""
    of_nodes = [seconds[min(place, len(seconds) - 1)] for place in range(len(cluster.nodes))]
    nodes = [
        replace(each, pace=Pace(0.0, one, spread=spread)) for each, one in zip(cluster.nodes, of_nodes, strict=True)
    ]
    return replace(cluster, nodes=tuple(nodes))


@pytest.mark.parametrize("spread", [Spread(), Spread(0.3)], ids=["steady", "varied"])
@pytest.mark.parametrize("cluster", [star_cluster(4, 0.01), uneven_cluster(), racks(2, 2, uplink_gbit_per_s=0.01)])
def test_no_exact_strategy_is_replayed_in_less_than_paced_passes_and_links_take(
    cluster: ClusterSpec, spread: Spread
) -> None:
    cluster = paced(cluster, 0.1, 0.2, spread=spread)
    exact = [each for each in sampled(PACED, cluster, 60) if not each.changes_statistics]
    assert len(exact) > 20
    assert step_bound(PACED, cluster).seconds <= min(np.exp(Replay().predict(PACED, cluster, exact)))


def test_what_paced_passes_release_late_waits_for_them() -> None:
    slow = star_cluster(4, gbit_per_s=0.01)
    # Of 0.34 MB only 0.01 is released before the fourth of six releases, 0.3 s after the pass began.
    left = sum(each.bytes for each in PACED.variables if each.ready_order >= 3)
    found = step_bound(PACED, paced(slow, 0.4))
    assert found.seconds == pytest.approx(0.1 + 0.3 * 4 / 6 + left * 1.5 * 8 / 0.01e9)
    assert found.reason == "paced passes and then the links out of all nodes together"
    unlike = step_bound(PACED, paced(slow, 0.2, 0.4))  # by the first node's passes
    assert unlike.seconds == pytest.approx(0.05 + 0.15 * 4 / 6 + left * 1.5 * 8 / 0.01e9)
    last = sum(each.bytes for each in PACED.variables if each.ready_order == 5)
    quick = step_bound(PACED, paced(star_cluster(4, gbit_per_s=10.0), 0.4))
    assert quick.seconds == pytest.approx(0.4 + last * 1.5 * 8 / 10e9)


def test_equal_links_are_bound_by_all_messages_together() -> None:
    found = step_bound(MODEL, star_cluster(4, gbit_per_s=0.2))
    assert found.seconds == pytest.approx(1.5 * MODEL.gradient_bytes / 0.2e9 * 8)
    assert found.reason.endswith("all nodes together")


def test_a_link_that_changes_binds_by_its_greatest_rate() -> None:
    cluster = star_cluster(4, gbit_per_s=0.2)
    faster = step_bound(MODEL, changing(cluster, (5.0, 0.1), (9.0, 2.0)))
    assert faster.seconds == pytest.approx(step_bound(MODEL, cluster).seconds / 2)
    assert step_bound(MODEL, changing(cluster, (5.0, 0.1))) == step_bound(MODEL, cluster)


def test_one_slow_link_binds_by_itself() -> None:
    cluster = star_cluster(4)
    slow = [replace(each, gbit_per_s=replace(each.gbit_per_s, value=0.01)) for each in cluster.links[-2:]]
    found = step_bound(MODEL, replace(cluster, links=(*cluster.links[:-2], *slow)))
    assert found.seconds == pytest.approx(MODEL.gradient_bytes / 0.01e9 * 8)
    assert found.reason.endswith("node3")


def test_what_joins_two_racks_is_crossed_once_each_way() -> None:
    cluster = rack_cluster()
    joint = [link for link in cluster.links if {link.source, link.target} <= set(cluster.switches)]
    slow = [replace(each, gbit_per_s=replace(each.gbit_per_s, value=0.001)) for each in joint]
    others = [each for each in cluster.links if each not in joint]
    found = step_bound(MODEL, replace(cluster, links=(*others, *slow)))
    assert found.seconds == pytest.approx(MODEL.gradient_bytes / 0.001e9 * 8)
    assert found.reason in {f"link {each.source} > {each.target}" for each in joint}


def test_all_that_hangs_on_a_switch_sends_as_nodes_do() -> None:
    """Of three racks on a switch four sums have to leave, over three uplinks."""
    found = step_bound(MODEL, racks(2, 2, 2, uplink_gbit_per_s=0.1))
    assert found.seconds == pytest.approx(4 / 3 * MODEL.gradient_bytes / 0.1e9 * 8)
    assert found.reason.endswith("all that hangs on core together")


def test_rows_count_where_they_are_fewer_bytes() -> None:
    dense, sparse = bert_like_model(sparse=False), bert_like_model()
    assert step_bound(sparse, star_cluster()).seconds < step_bound(dense, star_cluster()).seconds


def test_the_sum_of_factors_grows_with_the_replicas_until_it_is_dense() -> None:
    kernel, *others = MODEL.variables
    rest, (rows, columns) = MODEL.gradient_bytes - kernel.bytes, kernel.shape
    # All four nodes together: of the rest six messages, of the kernel the sum of the three others' into each.
    of_three = 4 * 3 * (rows + columns - 3)
    for factor_rows, kernel_bytes in ((1, 4 * of_three), (rows, 6 * kernel.bytes)):
        thin = replace(MODEL, variables=(replace(kernel, factor_rows=factor_rows), *others))
        expected = (6 * rest + kernel_bytes) / 4 / 0.2e9 * 8
        assert step_bound(thin, star_cluster(4, gbit_per_s=0.2)).seconds == pytest.approx(expected)


def test_between_racks_goes_the_sum_of_a_racks_factors() -> None:
    cluster = rack_cluster()
    kernel, *_ = MODEL.variables
    thin = ModelSpec("kernel", 8, "SGD", 0, (replace(kernel, factor_rows=2, ready_order=0),))
    slow = [replace(each, gbit_per_s=replace(each.gbit_per_s, value=0.001)) for each in cluster.links[-2:]]
    found = step_bound(thin, replace(cluster, links=(*cluster.links[:-2], *slow)))
    of_two = 4 * 4 * (sum(kernel.shape) - 4)
    assert found.seconds == pytest.approx(of_two / 0.001e9 * 8)


def test_cores_that_nodes_share_compute_for_all_of_them() -> None:
    fast = star_cluster(4, gbit_per_s=100.0)
    assert step_bound(PROFILED, fast).seconds == pytest.approx(0.4 / fast.nodes[0].cores)
    playing = tuple(replace(each, shared_cores=SharedCores("here", 2.0)) for each in fast.nodes)
    found = step_bound(PROFILED, replace(fast, nodes=playing))
    assert found.seconds == pytest.approx(4 * 0.4 / 2.0)
    assert found.reason == "computing on the 2 cores of here"


def test_one_node_is_bound_by_its_cores_alone() -> None:
    assert step_bound(MODEL, local_cluster()).seconds == 0.0
    assert step_bound(PROFILED, local_cluster()).seconds > 0.0
