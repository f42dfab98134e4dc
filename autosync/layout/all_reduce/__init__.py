"""What each all-reduce algorithm sends: one file an algorithm, named as it is, which states it as `LAID_OUT`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TypeAlias

from autosync.layout.exchange import Exchange, Processes
from autosync.spec import ClusterSpec

__all__ = ["LaidOut", "OnCluster", "laid_out"]

OnCluster: TypeAlias = Callable[[ClusterSpec], bool]


@dataclass(frozen=True)
class LaidOut:
    """An algorithm laid out among replicas: its exchange, for an optimizer of so many slots, and the conditions on it.

    It is offered where it `differs` from all others on a cluster, by more than its name. Where it is `uneven`, it loads
    the links of some nodes more than those of others that are like them, so that they must not change places.
    """

    exchange: Callable[[Sequence[str], Processes, int], Exchange]
    differs: OnCluster = lambda _: True
    uneven: OnCluster = lambda _: False


@cache
def laid_out(algorithm: str) -> LaidOut:
    """What the file of that name states."""
    found = import_module(f"{__name__}.{algorithm}").LAID_OUT
    assert isinstance(found, LaidOut)
    return found
