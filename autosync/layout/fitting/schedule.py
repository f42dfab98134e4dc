"""The schedule of an all-reduce that is fitted to a cluster: what is best of packed trees and known algorithms.

Judged are, for a bucket of `NOMINAL_BYTES`: each known algorithm; the same in pieces; and, in so many pieces, the
packing of trees that takes least in these, of all trees that were met and of the heaviest few, as each tree costs
messages. What is best is a matter of what links carry, of what an empty message takes and of what handling one costs.
A known algorithm whole is taken where it is within `MARGIN` of the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from math import inf
from typing import final

from autosync.layout.all_reduce import laid_out
from autosync.layout.fitting.judging import Judge, Judged
from autosync.layout.fitting.nested import direct_trees, nested_pricing, nested_trees, node_group, nodes_of
from autosync.layout.fitting.network import Network
from autosync.layout.fitting.packing import Packer, cheapest, packer_of
from autosync.layout.fitting.pieces import Way, in_pieces, moves_along, ways_of
from autosync.layout.moves import ELEMENTS, Moves, MovesOf
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec
from autosync.spec.algorithms import PLACED_ALGORITHMS

FITTED, DIRECT = "fitted", "direct"

NOMINAL_BYTES = 4e6
"""Bytes of the bucket that schedules are made for; of larger ones, messages count for less."""

PIECES = (1, 2, 3, 4, 6, 8, 12)
"""In how many pieces a bucket may go."""

MOST_NODES, MOST_LISTED = 16, 64
"""The most nodes that trees are packed for, and the most replicas whose known algorithms are compared."""

MARGIN = 0.02
"""What the best must be better by than a known algorithm, as a share: else noise of probing would decide."""


@final
@dataclass(frozen=True)
class Schedule:
    """How a bucket is all-reduced: by the known `algorithm` or, without one, along `ways`, in so many `pieces`."""

    algorithm: str | None
    ways: tuple[Way, ...]
    pieces: int
    judged: Judged | None = None

    @property
    def known(self) -> str | None:
        """The algorithm that it is, if it is one."""
        return self.algorithm if self.pieces == 1 else None

    @property
    def seconds(self) -> float:
        """Seconds of a bucket of the size that schedules are made for; endless where nobody has judged it."""
        return inf if self.judged is None else self.judged.seconds(NOMINAL_BYTES)

    def is_near(self, byte_seconds: float) -> bool:
        """Whether it takes no more than what nothing goes below, seconds a byte, and a margin."""
        judged = self.judged
        return judged is not None and judged.least_seconds(NOMINAL_BYTES) <= (1 + MARGIN) * byte_seconds * NOMINAL_BYTES

    def moves(self, topology: Topology, elements: int, item_bytes: int) -> Moves:
        """The moves of a bucket; a known algorithm's are its own."""
        if self.known is not None:
            return _moves_of(self.known)(topology, elements, item_bytes)
        each = partial(moves_along, self.ways) if self.algorithm is None else _moves_of(self.algorithm)
        return in_pieces(each, self.pieces, topology, elements)


def fitted_to(topology: Topology) -> Schedule:
    """The best schedule for these replicas; a known one where there are more than 16 nodes, or one alone."""
    return _fitted(topology.cluster, topology.replicas)


def direct_on(topology: Topology) -> Schedule:
    """The best schedule for these replicas in which nodes send to each other alone, and none sends on for another."""
    return _direct(topology.cluster, topology.replicas)


WORTH = 1.1
"""What direct exchange may take more than the best known algorithm, whole, to be offered beside it."""


def direct_is_worth_it(topology: Topology) -> bool:
    """Whether there are shares or pieces with which direct exchange is about as good as any known algorithm."""
    return len(topology) <= MOST_LISTED and _worth(topology.cluster, topology.replicas)


@lru_cache(maxsize=64)
def _worth(cluster: ClusterSpec, replicas: tuple[str, ...]) -> bool:
    topology = Topology(cluster, replicas)
    best = best_of(each for each in _Maker.of(topology).known() if each.known not in {None, DIRECT})
    return direct_on(topology).seconds <= WORTH * best.seconds


@lru_cache(maxsize=64)
def _fitted(cluster: ClusterSpec, replicas: tuple[str, ...]) -> Schedule:
    if len(replicas) > MOST_LISTED:
        return Schedule("ring", (), 1)
    maker = _Maker.of(Topology(cluster, replicas))
    found = list(maker.known())
    known = best_of([each for each in found if each.known])
    # What pieces and trees can be better by is what rounds wait for one another, and what links are unlike.
    if maker.packs:
        packer = maker.all_trees()
        if not known.is_near(packer.packing().seconds):
            found.append(maker.best_of_trees(packer))
    best = best_of(found)
    return known if known.seconds <= (1 + MARGIN) * best.seconds else best


@lru_cache(maxsize=64)
def _direct(cluster: ClusterSpec, replicas: tuple[str, ...]) -> Schedule:
    maker = _Maker.of(Topology(cluster, replicas))
    nodes = len(maker.network)
    trees = list(direct_trees(nodes))
    # On one machine each replica has a share, on several each node; its replicas take turns at those of others.
    pairs = list(zip(trees[::2], trees[1::2], strict=True)) * (len(replicas) if nodes == 1 else 1)
    even = tuple(Way(into, out, 1 / len(pairs)) for into, out in pairs)
    (whole,) = maker.along(even, (1,))
    packer = packer_of(maker.network, trees)
    if not maker.packs or whole.is_near(packer.packing().seconds):
        return whole
    best = maker.best_of_trees(packer)
    return whole if whole.seconds <= (1 + MARGIN) * best.seconds else best


def best_of(schedules: Iterable[Schedule]) -> Schedule:
    """The first of those that take least."""
    return min(schedules, key=lambda each: each.seconds)


@final
@dataclass(frozen=True, eq=False)
class _Maker:
    """Makes schedules for a topology and judges them, all by rates that are alike for links that are."""

    topology: Topology
    network: Network
    judge: Judge

    @classmethod
    def of(cls, topology: Topology) -> _Maker:
        network = Network.among(topology.cluster, nodes_of(topology), evened=True)
        return cls(topology, network, Judge(topology, network.byte_seconds))

    @property
    def packs(self) -> bool:
        """Whether trees can be packed, and there is time for it."""
        return 1 < len(self.network) <= MOST_NODES

    def known(self) -> Iterator[Schedule]:
        """Known algorithms, whole and in pieces."""
        for name in PLACED_ALGORITHMS:
            if name == DIRECT:
                yield Schedule(DIRECT, (), 1, direct_on(self.topology).judged)
            elif name != FITTED:
                for pieces, judged in self._judged(_moves_of(name), PIECES):
                    yield Schedule(name, (), pieces, judged)

    def along(self, ways: tuple[Way, ...], choices: tuple[int, ...]) -> Iterator[Schedule]:
        for pieces, judged in self._judged(partial(moves_along, ways), choices):
            yield Schedule(None, ways, pieces, judged)

    def all_trees(self) -> Packer:
        """Trees by groups and, where others are better, any; each node's own beside."""
        group = node_group(self.topology)
        packer = packer_of(self.network, [*direct_trees(len(self.network)), *nested_trees(group)])
        packer.extend(nested_pricing(group))
        packer.extend(cheapest)
        return packer

    def best_of_trees(self, packer: Packer) -> Schedule:
        """The best of packings in pieces, of all trees and of the heaviest, as many as nodes or half of that."""
        found: list[Schedule] = []
        for pieces in PIECES:
            ways = ways_of(packer.packing(pieces))
            found += self.along(ways, (pieces,))
            heaviest = sorted(ways, key=lambda way: -way.share)
            for count in (len(self.network), len(self.network) // 2):
                if 0 < count < len(ways):
                    trees = [tree for way in heaviest[:count] for tree in (way.into, way.out)]
                    found += self.along(ways_of(packer_of(self.network, trees).packing(pieces)), (pieces,))
        return best_of(found)

    def _judged(self, moves_of: MovesOf, choices: tuple[int, ...]) -> Iterator[tuple[int, Judged]]:
        return zip(choices, self.judge.judged(moves_of(self.topology, ELEMENTS, 0), choices), strict=True)


def _moves_of(algorithm: str) -> MovesOf:
    moves = laid_out(algorithm).moves
    assert moves is not None
    return moves
