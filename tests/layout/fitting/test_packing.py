"""Packings of trees take as long as their busiest links, and no packing takes less than the bound."""

from __future__ import annotations

import random

import pytest

from autosync.cost import all_reduce_bound_seconds, step_bound
from autosync.layout.fitting.bound import trees_bound
from autosync.layout.fitting.nested import direct_trees, nodes_of
from autosync.layout.fitting.network import LinkNetwork
from autosync.layout.fitting.packing import cheapest, packer_of
from autosync.layout.fitting.pieces import in_pieces, moves_along, ways_of
from autosync.layout.fitting.schedule_cost import CostEstimator
from autosync.layout.moves import ELEMENTS
from autosync.spec import ClusterSpec, ModelSpec, Variable
from tests.layout.fitting.shapes import SHAPES, everyone, shaped

MODEL = ModelSpec("w", 8, "SGD", 0, (Variable("w", (1000, 250), "float32", 0),))
MEGABYTE = 1e6


def bound_of(cluster: ClusterSpec) -> float:
    found = trees_bound(everyone(cluster))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("cluster", "buckets", "mbit"),
    [
        (shaped(4), 1.5, 200),
        (shaped(7), 12 / 7, 200),
        (shaped(2, 2), 1, 100),
        (shaped(2, 2, 2), 4 / 3, 100),
        (shaped(2, 2, 2, uplink=200), 10 / 6, 200),
        (shaped(5, own={4: (50, 50)}), 1, 50),
        (shaped(4, up=100, down=400), 1.5, 100),
    ],
)
def test_the_bound_equals_the_bound_computed_by_hand(cluster: ClusterSpec, buckets: float, mbit: float) -> None:
    found = bound_of(cluster)
    assert found == pytest.approx(buckets * 8 / (mbit * 1e6), rel=3e-3)
    assert all_reduce_bound_seconds(cluster, everyone(cluster).replicas, MEGABYTE) == pytest.approx(found * MEGABYTE)


@pytest.mark.parametrize("cluster", SHAPES.values(), ids=SHAPES)
def test_it_is_the_steps_bound_by_links(cluster: ClusterSpec) -> None:
    assert step_bound(MODEL, cluster).seconds == pytest.approx(bound_of(cluster) * MEGABYTE, rel=3e-3)


@pytest.mark.parametrize("seed", range(20))
def test_on_random_links_the_bound_is_no_lower_than_the_proven_bound(seed: int) -> None:
    rng = random.Random(seed)
    rates = [(rng.choice([50, 100, 200, 400]), rng.choice([50, 100, 200, 400])) for _ in range(16)]
    racks = [rng.randint(1, 3) for _ in range(rng.randint(2, 4))]
    cluster = shaped(*racks, uplink=rng.choice([50, 100, 400]), own=dict(enumerate(rates)))
    assert bound_of(cluster) * MEGABYTE >= (1 - 3e-3) * step_bound(MODEL, cluster).seconds


def test_the_bound_is_zero_on_one_node_and_unknown_on_many() -> None:
    assert trees_bound(everyone(shaped(1))) == 0.0
    assert trees_bound(everyone(shaped(17))) is None


@pytest.mark.parametrize("pieces", [1, 3, 8])
@pytest.mark.parametrize("cluster", SHAPES.values(), ids=SHAPES)
def test_a_packing_in_pieces_takes_as_long_as_its_moves(cluster: ClusterSpec, pieces: int) -> None:
    topology = everyone(cluster)
    packer = packer_of(LinkNetwork.among(cluster, nodes_of(topology)), direct_trees(len(topology)))
    packer.extend(cheapest)
    packing = packer.packing(pieces)
    ways = ways_of(packing)
    assert sum(way.share for way in ways) == pytest.approx(1)
    moves = in_pieces(lambda *bucket: moves_along(ways, *bucket), pieces, topology, ELEMENTS)
    (cost,) = CostEstimator(topology, {}).judged(moves)
    assert cost.waiting == pytest.approx(packing.seconds, rel=0.02)  # the smallest shares are left out
    assert cost.busy <= cost.waiting * (1 + 1e-9)
    assert packing.seconds >= packer.bound_seconds * (1 - 1e-9)


def test_nodes_are_equally_busy_if_that_costs_no_time() -> None:
    """Any of four nodes could be the only root."""
    topology = everyone(shaped(5, own={4: (50, 50)}))
    packer = packer_of(LinkNetwork.among(topology.cluster, nodes_of(topology)), direct_trees(5))
    shares = {way.into.root: way.share for way in ways_of(packer.packing(8))}
    assert shares == pytest.approx(dict.fromkeys(range(4), 0.25), abs=0.01)
