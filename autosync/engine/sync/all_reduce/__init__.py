"""All-reduce algorithms, one a file of its name (`halves` serves two): the mean of one flat gradient a replica.

Each is a function `NAME_mean(members, gradients, wire) -> pieces`: `gradients[r]` is flat and lives on `members[r]`,
and `pieces[r]`, to be concatenated, are the mean there. Every element of the result is computed once and copied from
there, so that all replicas get the same bits. Whatever crosses between replicas goes over the `Wire`.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeAlias

from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Wire
from autosync.spec import ALGORITHMS

__all__ = ["ALL_REDUCE", "Algorithm"]

Algorithm: TypeAlias = Callable[[Sequence[Member], Sequence[Any], Wire], list[list[Any]]]

ALL_REDUCE: Mapping[str, Algorithm] = MappingProxyType(
    {name: getattr(import_module(f"{__name__}.{name}"), f"{name}_mean") for name in ALGORITHMS}
)
"""The algorithms by the names that a strategy gives them."""
