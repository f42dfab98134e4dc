"""How long moves take if each round waits for the one before, which is how simulators count."""

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
"""Core-seconds of a message at either end, as the replay has it before it is fitted (`core_seconds_per_message`)."""

BYTE_SECONDS = 1.2e-9
"""Core-seconds of a byte at either end (`core_seconds_per_byte`)."""

POWER = 16
"""Of two links that are as busy the later one is taken to be later by a twentieth, of a dozen by a sixth."""


@dataclass(frozen=True)
class Judged:
    """What a bucket takes that goes in so many `messages`. A byte of it takes `waiting` seconds, summed over rounds, of
    the busiest link or node's cores, and `busy` where none ever waits; any bucket takes `bucket_seconds` beside, for
    empty messages in turn and for handling all of them.

    Of several links that are about as busy some take longer than they should: `likely` is `waiting` with that.
    """

    waiting: float
    busy: float
    likely: float
    bucket_seconds: float
    messages: int

    def least_seconds(self, size: float) -> float:
        """Seconds of a bucket of so many bytes, if links take what they should."""
        return self.waiting * size + self.bucket_seconds

    def seconds(self, size: float) -> float:
        """Seconds that a bucket of so many bytes is likely to take."""
        return self.likely * size + self.bucket_seconds


class _Round(NamedTuple):
    """What a round of moves takes: seconds a byte by link, seconds by node, those of an empty message; its moves."""

    busy: Mapping[Ends, float]
    handled: Mapping[str, float]
    latency: float
    messages: int


@final
@dataclass(frozen=True, eq=False)
class Judge:
    """Judges moves among the replicas of a topology; `byte_seconds` are those of links that have others than theirs."""

    topology: Topology
    byte_seconds: Mapping[Ends, float]

    @cached_property
    def _cores(self) -> dict[str, float]:
        """Cores of each node; of a machine that nodes share, no more than an even part."""
        nodes = self.topology.cluster.nodes
        sharing = Counter(node.shared_cores for node in nodes)
        return {
            node.name: min(node.cores, node.shared_cores.count / sharing[node.shared_cores])
            if node.shared_cores
            else node.cores
            for node in nodes
        }

    def judged(self, moves: Moves, choices: Sequence[int] = (1,)) -> list[Judged]:
        """What a bucket takes of which each piece goes by these moves, for each number of pieces to choose from.

        `moves` are those of one piece, of `ELEMENTS`.
        """
        rounds = [self._round(each) for each in moves.stages]
        return [self._in_pieces(rounds, pieces) for pieces in choices]

    def _in_pieces(self, rounds: Sequence[_Round], pieces: int) -> Judged:
        waiting = likely = bucket_seconds = 0.0
        for begin, end, times, share in windows_of(len(rounds), pieces):
            at_once = rounds[begin:end]
            busy = _sums(each.busy for each in at_once)
            waiting += share * max(busy, default=0.0)
            likely += share * _soft_most(busy)
            latency = max((each.latency for each in at_once), default=0.0)
            bucket_seconds += times * (latency + max(_sums(each.handled for each in at_once), default=0.0))
        messages = pieces * sum(each.messages for each in rounds)
        in_all = max(_sums(each.busy for each in rounds), default=0.0)
        return Judged(waiting, in_all, likely, bucket_seconds, messages)

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
    """What each link or node has of the rounds together."""
    found = defaultdict[Any, float](float)
    for each in of_rounds:
        for what, seconds in each.items():
            found[what] += seconds
    return list(found.values())


def _soft_most(seconds: Sequence[float]) -> float:
    """The most of these, and more where others come near it: their p-norm."""
    most = max(seconds, default=0.0)
    return most and float(most * sum((each / most) ** POWER for each in seconds) ** (1 / POWER))
