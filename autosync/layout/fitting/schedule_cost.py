"""Estimates the duration of moves if each round waits for the previous one, as simulators assume."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

from autosync.layout.fitting.windows import windows_of
from autosync.layout.moves import ELEMENTS, Moves, Round
from autosync.layout.topology import Topology
from autosync.spec import Link

Ends: TypeAlias = tuple[str, str]
"""The ends of a link; or "cores" and a node."""

MESSAGE_SECONDS = 2.5e-4
"""Core-seconds of a message at either end, as in the replay before calibration (`core_seconds_per_message`)."""

BYTE_SECONDS = 1.2e-9
"""Core-seconds of a byte at either end (`core_seconds_per_byte`)."""

POWER = 16
"""The exponent of the p-norm over links. The last of two equally busy links is late by a twentieth, the last of a dozen
by a sixth."""


@dataclass(frozen=True)
class ScheduleCost:
    """The cost of a bucket under a schedule: seconds a byte, and seconds for any bucket."""

    waiting: float
    """Seconds a byte of the busiest link or node's cores, summed over rounds that wait for one another."""

    busy: float
    """Seconds a byte of the busiest link or node's cores, if nothing ever waits."""

    likely: float
    """Seconds a byte with the delay of stragglers. If several links are nearly equally busy, one of them usually
    finishes late; `likely` adds that delay to `waiting`."""

    bucket_seconds: float
    """Seconds that any bucket takes in addition: the latency of the rounds, and the handling of all messages."""

    messages: int
    """Messages of a bucket."""

    def least_seconds(self, size: float) -> float:
        """Seconds of a bucket of `size` bytes, if no link is late."""
        return self.waiting * size + self.bucket_seconds

    def seconds(self, size: float) -> float:
        """Likely seconds of a bucket of `size` bytes."""
        return self.likely * size + self.bucket_seconds


class _Round(NamedTuple):
    """The costs of a round of moves."""

    busy: Mapping[Ends, float]
    """Seconds a byte, by link or node's cores."""

    handled: Mapping[str, float]
    """Seconds to handle messages, by node."""

    latency: float
    """Seconds of an empty message on the slowest route."""

    messages: int
    """The number of moves."""


@final
@dataclass(frozen=True, eq=False)
class CostEstimator:
    """Estimates the cost of moves among the replicas of a topology."""

    topology: Topology
    byte_seconds: Mapping[Ends, float]
    """Seconds a byte of links whose rate differs from the cluster's."""

    @cached_property
    def _cores(self) -> dict[str, float]:
        """Cores of each node; at most an even part of a machine that several nodes share."""
        nodes = self.topology.cluster.nodes
        sharing = Counter(node.shared_cores for node in nodes)
        return {
            node.name: min(node.cores, node.shared_cores.count / sharing[node.shared_cores])
            if node.shared_cores
            else node.cores
            for node in nodes
        }

    def judged(self, moves: Moves, choices: Sequence[int] = (1,)) -> list[ScheduleCost]:
        """The costs of a bucket whose pieces all go by `moves`, one for each number of pieces in `choices`.

        `moves` are the moves of one piece of `ELEMENTS` elements.
        """
        rounds = [self._round(concurrent) for concurrent in moves.stages]
        return [self._in_pieces(rounds, pieces) for pieces in choices]

    def _in_pieces(self, rounds: Sequence[_Round], pieces: int) -> ScheduleCost:
        waiting = likely = bucket_seconds = 0.0
        for begin, end, times, share in windows_of(len(rounds), pieces):
            concurrent = rounds[begin:end]
            busy = _sums(step.busy for step in concurrent)
            waiting += share * max(busy, default=0.0)
            likely += share * _soft_max(busy)
            latency = max((step.latency for step in concurrent), default=0.0)
            bucket_seconds += times * (latency + max(_sums(step.handled for step in concurrent), default=0.0))
        messages = pieces * sum(step.messages for step in rounds)
        in_all = max(_sums(step.busy for step in rounds), default=0.0)
        return ScheduleCost(waiting, in_all, likely, bucket_seconds, messages)

    def _round(self, moves: Round) -> _Round:
        nodes, sent, messages = self.topology.nodes, Counter[Ends](), Counter[Ends]()
        for source, target, (begin, end) in moves:
            ends = nodes[source], nodes[target]
            if ends[0] != ends[1] or self._apart(source, target):
                sent[ends] += end - begin
                messages[ends] += 1
        busy, handled, latency = defaultdict[Ends, float](float), defaultdict[str, float](float), 0.0
        for ends, elements in sent.items():
            route = self.topology.cluster.route(*ends)
            for link in route:
                busy[link.source, link.target] += elements / ELEMENTS * self._byte_seconds(link)
            for node in ends:
                busy["cores", node] += elements / ELEMENTS * BYTE_SECONDS / self._cores[node]
                handled[node] += messages[ends] * MESSAGE_SECONDS / self._cores[node]
            latency = max(latency, sum(link.latency_seconds for link in route))
        return _Round(busy, handled, latency, len(moves))

    def _apart(self, source: int, target: int) -> bool:
        replicas = self.topology.replicas
        return self.topology.processes.apart(replicas[source], replicas[target])

    def _byte_seconds(self, link: Link) -> float:
        return self.byte_seconds.get((link.source, link.target), 1 / link.bytes_per_second)


def _sums(of_rounds: Iterable[Mapping[Any, float]]) -> list[float]:
    """The seconds of every link or node, summed over the rounds."""
    totals = defaultdict[Any, float](float)
    for by_resource in of_rounds:
        for resource, seconds in by_resource.items():
            totals[resource] += seconds
    return list(totals.values())


def _soft_max(seconds: Sequence[float]) -> float:
    """The p-norm: the maximum, and more if several values are near the maximum."""
    most = max(seconds, default=0.0)
    return most and float(most * sum((busy / most) ** POWER for busy in seconds) ** (1 / POWER))
