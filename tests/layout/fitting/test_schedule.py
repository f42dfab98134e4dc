"""Fitted schedules are near the bound, are known algorithms if these are near it too, and survive another probe."""

from __future__ import annotations

import random

import pytest

from autosync.layout.all_reduce import layout_of
from autosync.layout.all_reduce.fitted import equivalent_algorithm
from autosync.layout.fitting.bound import trees_bound
from autosync.layout.fitting.schedule import best_schedule, direct_on
from autosync.layout.fitting.schedule_cost import CostEstimator
from autosync.layout.moves import ELEMENTS
from autosync.layout.topology import Topology
from autosync.spec import PLACED_ALGORITHMS, ClusterSpec
from tests import cases
from tests.layout.fitting.shapes import SHAPES, everyone, jittered, shaped

SIZES = (4e6, 16e6, 64e6)
MOST, OFTEN = 1.15, 1.10
UNLIKE = "unlike links"
"""Six different nodes. 4 MB take more than `MOST` times the bound, because there are many messages."""


def _over_bound(algorithm: str, topology: Topology, size: float) -> float:
    moves_of, bound = layout_of(algorithm).moves, trees_bound(topology)
    assert moves_of is not None
    assert bound
    (cost,) = CostEstimator(topology, {}).judged(moves_of(topology, ELEMENTS, 0))
    return cost.least_seconds(size) / (bound * size)


@pytest.mark.parametrize("cluster", [shape for name, shape in SHAPES.items() if name != UNLIKE])
def test_a_bucket_takes_little_more_than_the_bound(cluster: ClusterSpec) -> None:
    assert max(_over_bound("fitted", everyone(cluster), size) for size in SIZES) <= MOST


def test_most_clusters_are_within_a_tenth_of_the_bound() -> None:
    found = [_over_bound("fitted", everyone(shape), SIZES[0]) for shape in SHAPES.values()]
    assert sum(excess <= OFTEN for excess in found) >= len(found) / 2


@pytest.mark.parametrize("cluster", SHAPES.values(), ids=SHAPES)
def test_no_known_algorithm_is_better_by_more_than_the_margin(cluster: ClusterSpec) -> None:
    topology = everyone(cluster)
    known = [_over_bound(algorithm, topology, SIZES[0]) for algorithm in PLACED_ALGORITHMS if algorithm != "fitted"]
    assert _over_bound("fitted", topology, SIZES[0]) <= 1.05 * min(known)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("4 on a switch", "blueconnect"),
        ("6 on a switch", "halving_doubling"),
        ("one slow node of five", None),
        ("two racks of two, wide uplinks", "ring"),
        ("two racks of two", None),
        ("three racks of two", None),
    ],
)
def test_it_says_which_known_algorithm_it_is(name: str, known: str | None) -> None:
    topology = everyone(SHAPES[name])
    assert equivalent_algorithm(topology) == known
    assert layout_of("fitted").differs(topology.cluster) == (known is None)
    if known is not None:
        moves = [layout_of(algorithm).moves for algorithm in ("fitted", known)]
        assert len({of(topology, 4801, 4) for of in moves if of}) == 1


def test_a_slow_node_has_no_share_and_sends_its_bucket_once() -> None:
    topology = everyone(SHAPES["one slow node of five"])
    assert 4 not in {way.into.root for way in direct_on(topology).ways}
    moves_of = layout_of("direct").moves
    assert moves_of is not None
    listed = [move for stage in moves_of(topology, 4800, 4).stages for move in stage]
    for end in ("source", "target"):
        assert sum(move.span[1] - move.span[0] for move in listed if getattr(move, end) == 4) == 4800


def test_direct_exchange_is_offered_where_it_is_about_as_good_as_any() -> None:
    offered = [name for name, cluster in SHAPES.items() if layout_of("direct").differs(cluster)]
    assert offered == ["6 on a switch", "8 on a switch", "one slow node of five", UNLIKE]


def test_links_that_are_alike_have_shares_that_are() -> None:
    assert {way.share for way in direct_on(everyone(shaped(5))).ways} == {0.2}
    assert not layout_of("direct").uneven(shaped(5))
    assert layout_of("direct").uneven(SHAPES["one slow node of five"])


@pytest.mark.parametrize("cluster", SHAPES.values(), ids=SHAPES)
def test_a_schedule_fitted_to_links_probed_again_is_as_fast(cluster: ClusterSpec) -> None:
    topology, rng = everyone(cluster), random.Random(0)
    judge = CostEstimator(topology, {})
    schedules = [
        best_schedule(probed) for probed in (topology, *(everyone(jittered(cluster, 0.02, rng)) for _ in range(3)))
    ]
    first, *again = (
        judge.judged(schedule.moves(topology, ELEMENTS, 0))[0].least_seconds(SIZES[0]) for schedule in schedules
    )
    assert max(again) <= 1.05 * first


def test_probing_again_changes_neither_trees_nor_pieces() -> None:
    cluster, rng = SHAPES["three racks of two"], random.Random(0)
    found = [best_schedule(everyone(jittered(cluster, 0.02, rng))) for _ in range(3)]
    trees = [{(way.into, way.out) for way in schedule.ways} for schedule in found]
    assert trees[0] == trees[1] == trees[2]
    assert len({schedule.pieces for schedule in found}) == 1


def test_the_same_cluster_has_the_same_moves() -> None:
    """The engine and the simulators compute moves independently."""
    first, second = (everyone(shaped(2, 2, 2)) for _ in range(2))
    moves_of = layout_of("fitted").moves
    assert moves_of is not None
    assert moves_of(first, 1000, 4) == moves_of(second, 1000, 4)


def test_many_nodes_have_the_best_known_algorithm() -> None:
    assert equivalent_algorithm(everyone(shaped(20))) in {"halving_doubling", "blueconnect", "direct"}
    assert equivalent_algorithm(everyone(shaped(70))) == "ring"
    assert not layout_of("fitted").differs(shaped(70))


def test_on_one_machine_each_replica_has_a_share() -> None:
    moves_of = layout_of("direct").moves
    assert moves_of is not None
    moves = moves_of(everyone(cases.local_cluster(4)), 400, 4)
    assert len(moves.stages) == 2
    assert sorted(move.span[1] - move.span[0] for move in moves.adding[0]) == [100] * 12


def test_a_nodes_replicas_send_to_one_of_them_first() -> None:
    topology = everyone(cases.star_cluster(2, workers=2))
    moves_of = layout_of("direct").moves
    assert moves_of is not None
    moves = moves_of(topology, 400, 4)
    across = [
        (move.source, move.target)
        for stage in moves.stages
        for move in stage
        if topology.nodes[move.source] != topology.nodes[move.target]
    ]
    assert len(across) == 4
    assert {replica for pair in across for replica in pair} == {0, 1, 2, 3}  # they take turns
