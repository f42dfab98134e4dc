"""The all-reduce algorithms: one file per algorithm, with the algorithm's name, which defines `LAID_OUT`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TypeAlias

from autosync.layout.exchange import Exchange
from autosync.layout.moves import MovesOf, exchange_of
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec

__all__ = ["LaidOut", "OnCluster", "layout_of"]

OnCluster: TypeAlias = Callable[[ClusterSpec], bool]


@dataclass(frozen=True)
class LaidOut:
    """An algorithm laid out among replicas: its messages, and the clusters on which it applies."""

    moves: MovesOf | None = None
    """The moves that the engine executes. None if the engine executes the algorithm by other means."""

    closed_form: Callable[[Topology, int], Exchange] | None = None
    """(topology, optimizer slots) -> the sum of the moves, for algorithms with too many moves to list."""

    differs: OnCluster = lambda _: True
    """Whether the algorithm differs from all others on a cluster by more than its name; only then it is offered."""

    uneven: OnCluster = lambda _: False
    """Whether the algorithm loads the links of some nodes more than the links of equal nodes, so that these nodes must
    not be exchanged."""

    def exchange(self, topology: Topology, slots: int) -> Exchange:
        """The algorithm's traffic and work among the replicas, with an optimizer of `slots` slots."""
        if self.closed_form is not None:
            return self.closed_form(topology, slots)
        assert self.moves is not None
        return exchange_of(self.moves, topology, slots)


@cache
def layout_of(algorithm: str) -> LaidOut:
    """The `LAID_OUT` of the algorithm's file."""
    stated = import_module(f"{__name__}.{algorithm}").LAID_OUT
    assert isinstance(stated, LaidOut)
    return stated
