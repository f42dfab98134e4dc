"""The all-reduce schedule fitted to a cluster: the best of packed trees and known algorithms.

The candidates, for a bucket of `NOMINAL_BYTES`, are each known algorithm, whole and in pieces, and for each number of
pieces the fastest packing of trees: of all trees, and of the few heaviest trees, because each tree costs messages. The
estimate adds the time of bytes on links, the latency of messages and the cost of handling them. A known algorithm,
whole, is preferred if it is within `MARGIN` of the best candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from math import inf
from typing import final

from autosync.layout.all_reduce import layout_of
from autosync.layout.fitting.nested import direct_trees, group_pricing, group_trees, node_group, nodes_of
from autosync.layout.fitting.network import LinkNetwork
from autosync.layout.fitting.packing import Packer, cheapest, packer_of
from autosync.layout.fitting.pieces import Way, in_pieces, moves_along, ways_of
from autosync.layout.fitting.schedule_cost import CostEstimator, ScheduleCost
from autosync.layout.moves import ELEMENTS, Moves, MovesOf
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec
from autosync.spec.algorithms import PLACED_ALGORITHMS

FITTED, DIRECT = "fitted", "direct"

NOMINAL_BYTES = 4e6
"""Bytes of the bucket that schedules are made for. In larger buckets, messages count for less."""

PIECES = (1, 2, 3, 4, 6, 8, 12)
"""The numbers of pieces that a bucket may be cut into."""

MOST_NODES, MOST_LISTED = 16, 64
"""The maximum number of nodes for which trees are packed, and of replicas for which known algorithms are compared."""

MARGIN = 0.02
"""The share by which the best schedule must beat a known algorithm; with less, probing noise would decide."""


@final
@dataclass(frozen=True)
class Schedule:
    """A way to all-reduce a bucket: by a known algorithm or along `ways`, whole or in pieces."""

    algorithm: str | None
    """The known algorithm; None: the bucket goes along `ways`."""

    ways: tuple[Way, ...]
    pieces: int
    cost: ScheduleCost | None = None
    """The estimated cost; None if it was not estimated."""

    @property
    def known(self) -> str | None:
        """The known algorithm if the schedule is that algorithm, whole; else None."""
        return self.algorithm if self.pieces == 1 else None

    @property
    def seconds(self) -> float:
        """Estimated seconds of a bucket of `NOMINAL_BYTES`; infinite without an estimate."""
        return inf if self.cost is None else self.cost.seconds(NOMINAL_BYTES)

    def is_near(self, byte_seconds: float) -> bool:
        """Whether the schedule is within a margin of the lower bound `byte_seconds`, in seconds a byte."""
        cost = self.cost
        return cost is not None and cost.least_seconds(NOMINAL_BYTES) <= (1 + MARGIN) * byte_seconds * NOMINAL_BYTES

    def moves(self, topology: Topology, elements: int, item_bytes: int) -> Moves:
        """The moves of a bucket."""
        if self.known is not None:
            return _moves_of(self.known)(topology, elements, item_bytes)
        of_piece = partial(moves_along, self.ways) if self.algorithm is None else _moves_of(self.algorithm)
        return in_pieces(of_piece, self.pieces, topology, elements)


def best_schedule(topology: Topology) -> Schedule:
    """The best schedule for these replicas; a known algorithm if there are more than 16 nodes, or only one."""
    return _find_best(topology.cluster, topology.replicas)


def direct_on(topology: Topology) -> Schedule:
    """The best schedule for these replicas in which nodes send directly to each other, without forwarding."""
    return _find_direct(topology.cluster, topology.replicas)


WORTH = 1.1
"""Direct exchange is offered if it takes at most this multiple of the best known algorithm's time, whole."""


def direct_is_worth_it(topology: Topology) -> bool:
    """Whether direct exchange, with some shares or pieces, is about as fast as the best known algorithm."""
    return len(topology) <= MOST_LISTED and _direct_is_near(topology.cluster, topology.replicas)


@lru_cache(maxsize=64)
def _direct_is_near(cluster: ClusterSpec, replicas: tuple[str, ...]) -> bool:
    topology = Topology(cluster, replicas)
    algorithms = _Maker.of(topology).algorithm_schedules()
    best = best_of(schedule for schedule in algorithms if schedule.known not in {None, DIRECT})
    return direct_on(topology).seconds <= WORTH * best.seconds


@lru_cache(maxsize=64)
def _find_best(cluster: ClusterSpec, replicas: tuple[str, ...]) -> Schedule:
    if len(replicas) > MOST_LISTED:
        return Schedule("ring", (), 1)
    maker = _Maker.of(Topology(cluster, replicas))
    candidates = list(maker.algorithm_schedules())
    known = best_of([schedule for schedule in candidates if schedule.known])
    # Pieces and trees can only save the time that rounds wait for one another, and the time lost on unequal links.
    # So a known algorithm near the bound of a packing, whose links never wait, leaves nothing to search for.
    if maker.packs:
        packer = maker.all_trees()
        if not known.is_near(packer.packing().seconds):
            candidates.append(maker.best_of_trees(packer))
    best = best_of(candidates)
    return known if known.seconds <= (1 + MARGIN) * best.seconds else best


@lru_cache(maxsize=64)
def _find_direct(cluster: ClusterSpec, replicas: tuple[str, ...]) -> Schedule:
    maker = _Maker.of(Topology(cluster, replicas))
    nodes = len(maker.network)
    trees = list(direct_trees(nodes))
    # On one machine each replica has a share. On several machines each node has one, and the node's replicas take
    # turns, share by share, to send for the node.
    pairs = list(zip(trees[::2], trees[1::2], strict=True)) * (len(replicas) if nodes == 1 else 1)
    even = tuple(Way(into, out, 1 / len(pairs)) for into, out in pairs)
    (whole,) = maker.along(even, (1,))
    packer = packer_of(maker.network, trees)
    if not maker.packs or whole.is_near(packer.packing().seconds):
        return whole
    best = maker.best_of_trees(packer)
    return whole if whole.seconds <= (1 + MARGIN) * best.seconds else best


def best_of(schedules: Iterable[Schedule]) -> Schedule:
    """The fastest schedule; of equally fast schedules, the first."""
    return min(schedules, key=lambda schedule: schedule.seconds)


@final
@dataclass(frozen=True, eq=False)
class _Maker:
    """Makes schedules for a topology and estimates their costs. Links with about equal rates count as equal."""

    topology: Topology
    network: LinkNetwork
    judge: CostEstimator

    @classmethod
    def of(cls, topology: Topology) -> _Maker:
        network = LinkNetwork.among(topology.cluster, nodes_of(topology), evened=True)
        return cls(topology, network, CostEstimator(topology, network.byte_seconds))

    @property
    def packs(self) -> bool:
        """Whether trees can be packed in reasonable time."""
        return 1 < len(self.network) <= MOST_NODES

    def algorithm_schedules(self) -> Iterator[Schedule]:
        """Schedules of known algorithms, whole and in pieces."""
        for name in PLACED_ALGORITHMS:
            if name == DIRECT:
                yield Schedule(DIRECT, (), 1, direct_on(self.topology).cost)
            elif name != FITTED:
                for pieces, cost in self._costs(_moves_of(name), PIECES):
                    yield Schedule(name, (), pieces, cost)

    def along(self, ways: tuple[Way, ...], choices: tuple[int, ...]) -> Iterator[Schedule]:
        for pieces, cost in self._costs(partial(moves_along, ways), choices):
            yield Schedule(None, ways, pieces, cost)

    def all_trees(self) -> Packer:
        """The program of each node's direct trees, of trees by groups, and of any other trees that improve on these."""
        group = node_group(self.topology)
        packer = packer_of(self.network, [*direct_trees(len(self.network)), *group_trees(group)])
        packer.extend(group_pricing(group))
        packer.extend(cheapest)
        return packer

    def best_of_trees(self, packer: Packer) -> Schedule:
        """The best packing over all numbers of pieces: of all trees, or of as many of the heaviest ways as there are
        nodes, or half as many."""
        schedules: list[Schedule] = []
        for pieces in PIECES:
            ways = ways_of(packer.packing(pieces))
            schedules += self.along(ways, (pieces,))
            heaviest = sorted(ways, key=lambda way: -way.share)
            for count in (len(self.network), len(self.network) // 2):
                if 0 < count < len(ways):
                    trees = [tree for way in heaviest[:count] for tree in (way.into, way.out)]
                    schedules += self.along(ways_of(packer_of(self.network, trees).packing(pieces)), (pieces,))
        return best_of(schedules)

    def _costs(self, moves_of: MovesOf, choices: tuple[int, ...]) -> Iterator[tuple[int, ScheduleCost]]:
        return zip(choices, self.judge.judged(moves_of(self.topology, ELEMENTS, 0), choices), strict=True)


def _moves_of(algorithm: str) -> MovesOf:
    moves = layout_of(algorithm).moves
    assert moves is not None
    return moves
