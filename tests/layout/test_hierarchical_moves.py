"""Hierarchical moves: the busiest links carry as few bytes as possible, in few messages and few rounds."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from autosync.layout.all_reduce import layout_of
from autosync.layout.hierarchical_moves import hierarchical_moves
from autosync.layout.moves import ELEMENTS, Move, Moves
from autosync.layout.nesting import HALVES, near_and_fast
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec, Figure
from tests import cases


def _moves(algorithm: str, cluster: ClusterSpec) -> Moves:
    moves_of = layout_of(algorithm).moves
    assert moves_of is not None
    return moves_of(Topology.of(cluster), ELEMENTS, 4)


def _buckets(moves: Moves, cluster: ClusterSpec) -> dict[str, float]:
    """The buckets that each link carries, except loopbacks."""
    nodes, sent = Topology.of(cluster).nodes, Counter[str]()
    for source, target, (begin, end) in (move for stage in (*moves.adding, *moves.copying) for move in stage):
        for link in cluster.route(nodes[source], nodes[target]):
            sent[f"{link.source}>{link.target}"] += end - begin
    return {name: size / ELEMENTS for name, size in sent.items() if len(set(name.split(">"))) > 1}


def test_a_power_of_two_in_racks_exchanges_halves_and_then_quarters() -> None:
    near, across = ((0, 1), (1, 0), (2, 3), (3, 2)), ((0, 2), (1, 3), (2, 0), (3, 1))
    spans = {0: (0, 2), 1: (2, 4), 2: (4, 6), 3: (6, 8)}
    halves = {0: (0, 4), 1: (4, 8), 2: (0, 4), 3: (4, 8)}
    quarters = {0: (0, 2), 1: (4, 6), 2: (2, 4), 3: (6, 8)}
    assert set(spans.values()) == set(quarters.values())
    first = tuple(Move(source, target, halves[target]) for source, target in near)
    second = tuple(Move(source, target, quarters[target]) for source, target in across)
    moves = hierarchical_moves(HALVES.of(Topology.of(cases.racks(2, 2)).root), 8)
    assert moves.adding == (first, second)
    assert moves == Moves.there_and_back([first, second])


@pytest.mark.parametrize("algorithm", ["halving_doubling", "rabenseifner", "blueconnect"])
@pytest.mark.parametrize("nodes", range(2, 13))
def test_on_one_switch_each_sends_about_as_little_as_it_must_in_few_rounds(algorithm: str, nodes: int) -> None:
    cluster = cases.star_cluster(nodes)
    moves = _moves(algorithm, cluster)
    most = max(_buckets(moves, cluster).values()) / (2 * (nodes - 1) / nodes)
    assert 1 - 1e-12 <= most <= (1.03 if nodes in (7, 11) else 1 + 1e-9)
    assert len(moves.adding) <= math.ceil(math.log2(nodes))
    assert sum(map(len, moves.adding)) <= nodes * (nodes - 1)


@pytest.mark.parametrize("algorithm", ["rabenseifner", "blueconnect"])
@pytest.mark.parametrize(
    "sizes", [(2, 2), (3, 2), (4, 1), (7, 2), (2, 2, 2), (3, 2, 2), (5, 1, 1), (4, 4, 4, 4), (3, 3, 2, 1)], ids=str
)
def test_racks_send_each_other_as_little_as_they_must(algorithm: str, sizes: tuple[int, ...]) -> None:
    cluster, racks, nodes = cases.racks(*sizes), len(sizes), sum(sizes)
    moves = _moves(algorithm, cluster)
    buckets = _buckets(moves, cluster)
    uplinks = [buckets[f"rack{rack}>core"] for rack in range(racks)]
    assert sum(uplinks) == pytest.approx(2 * (racks - 1))
    assert max(uplinks) <= 2 * (racks - 1) / racks * 1.05
    assert max(buckets.values()) <= 2 + 1e-9
    assert sum(map(len, moves.adding)) <= nodes * (nodes - 1)


def test_unlike_groups_that_are_deep_in_each_other_have_few_messages() -> None:
    sizes = (7, 3, 5, 1, 2, 6, 4, 3, 5, 7, 1)
    cluster = cases.racks(*sizes)
    moves = _moves("rabenseifner", cluster)
    assert sum(map(len, moves.adding)) <= sum(sizes) * 2 * math.log2(sum(sizes))
    uplinks = [size for name, size in _buckets(moves, cluster).items() if name.endswith(">core")]
    assert max(uplinks) <= 2.2


def test_a_slow_node_carries_the_bucket_once_each_way() -> None:
    star = cases.star_cluster(5)
    links = (
        replace(link, gbit_per_s=Figure(0.05, "stated")) if "node4" in (link.source, link.target) else link
        for link in star.links
    )
    cluster = replace(star, links=tuple(links))
    buckets = _buckets(hierarchical_moves(HALVES.of(near_and_fast(Topology.of(cluster))), ELEMENTS), cluster)
    assert buckets["node4>switch"] == buckets["switch>node4"] == 1
    assert max(buckets.values()) == 1.75
