"""All-reduce algorithms, which compute the mean of one flat gradient a replica.

An algorithm is a function `(members, gradients, wire) -> pieces`: `gradients[r]` is flat and on `members[r]`, and the
concatenated `pieces[r]` are the mean there. Every element of the result is computed once and then copied, so that all
replicas get the same bits. All messages between replicas use the `Wire`. `executor` carries out algorithms that are
laid out in moves. Any other algorithm has a file of its name in this package, with a function `NAME_mean`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from autosync.engine.tensorflow.sync.all_reduce.executor import mean_by_moves
from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.wire import Wire
from autosync.layout.all_reduce import layout_of
from autosync.spec import ALGORITHMS

__all__ = ["ALL_REDUCE", "Algorithm"]

Algorithm: TypeAlias = Callable[[Members, Sequence[Any], Wire], list[list[Any]]]


def _algorithm(name: str) -> Algorithm:
    moves = layout_of(name).moves
    if moves is not None:
        return partial(mean_by_moves, moves)
    return cast(Algorithm, getattr(import_module(f"{__name__}.{name}"), f"{name}_mean"))


ALL_REDUCE: Mapping[str, Algorithm] = MappingProxyType({name: _algorithm(name) for name in ALGORITHMS})
"""The algorithms by the names that strategies use."""
