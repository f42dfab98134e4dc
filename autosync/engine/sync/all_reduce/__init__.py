"""All-reduce algorithms at work: the mean of one flat gradient a replica.

Each is a function `(members, gradients, wire) -> pieces`: `gradients[r]` is flat and lives on `members[r]`, and
`pieces[r]`, to be concatenated, are the mean there. Every element of the result is computed once and copied from
there, so that all replicas get the same bits. Whatever crosses between replicas goes over the `Wire`. Algorithms that
are laid out in moves are carried out by `placed`; any other has a file of its name here, with a function `NAME_mean`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from autosync.engine.sync.all_reduce.placed import mean_by_moves
from autosync.engine.sync.member import Members
from autosync.engine.sync.wire import Wire
from autosync.layout.all_reduce import laid_out
from autosync.spec import ALGORITHMS

__all__ = ["ALL_REDUCE", "Algorithm"]

Algorithm: TypeAlias = Callable[[Members, Sequence[Any], Wire], list[list[Any]]]


def _algorithm(name: str) -> Algorithm:
    moves = laid_out(name).moves
    if moves is not None:
        return partial(mean_by_moves, moves)
    return cast(Algorithm, getattr(import_module(f"{__name__}.{name}"), f"{name}_mean"))


ALL_REDUCE: Mapping[str, Algorithm] = MappingProxyType({name: _algorithm(name) for name in ALGORITHMS})
"""The algorithms by the names that a strategy gives them."""
