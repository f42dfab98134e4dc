"""How each all-reduce algorithm goes: one file an algorithm, named as it is, which states it as `LAID_OUT`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TypeAlias

from autosync.layout.exchange import Exchange
from autosync.layout.moves import MovesOf, exchange_of
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec

__all__ = ["LaidOut", "OnCluster", "laid_out"]

OnCluster: TypeAlias = Callable[[ClusterSpec], bool]


@dataclass(frozen=True)
class LaidOut:
    """An algorithm laid out among replicas: what the engine does and what is sent, and the conditions on it.

    The engine carries its `moves` out; what has none, it carries out by other means. `closed_form` is what they add up
    to, for an optimizer of so many slots, where they are too many to list. It is offered where it `differs` from all
    others on a cluster, by more than its name. Where it is `uneven`, it loads the links of some nodes more than those
    of others that are like them, so that they must not change places.
    """

    moves: MovesOf | None = None
    closed_form: Callable[[Topology, int], Exchange] | None = None
    differs: OnCluster = lambda _: True
    uneven: OnCluster = lambda _: False

    def exchange(self, topology: Topology, slots: int) -> Exchange:
        """What it sends and computes among the replicas, with an optimizer of `slots` slots."""
        if self.closed_form is not None:
            return self.closed_form(topology, slots)
        assert self.moves is not None
        return exchange_of(self.moves, topology, slots)


@cache
def laid_out(algorithm: str) -> LaidOut:
    """What the file of that name states."""
    found = import_module(f"{__name__}.{algorithm}").LAID_OUT
    assert isinstance(found, LaidOut)
    return found
