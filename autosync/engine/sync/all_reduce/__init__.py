"""All-reduce algorithms, one a file: the mean of one flat gradient a replica, on every replica.

Each is a function `(members, gradients, wire) -> pieces`: `gradients[r]` is flat and lives on `members[r]`, and
`pieces[r]`, to be concatenated, are the mean there. Every element of the result is computed once and copied from there,
so that all replicas get the same bits. Whatever crosses between replicas goes over the `Wire`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from autosync.engine.sync.all_reduce.collective import collective_mean
from autosync.engine.sync.all_reduce.halving_doubling import halving_doubling_mean
from autosync.engine.sync.all_reduce.hierarchical import hierarchical_mean
from autosync.engine.sync.all_reduce.rabenseifner import rabenseifner_mean
from autosync.engine.sync.all_reduce.ring import ring_mean
from autosync.engine.sync.all_reduce.tree import tree_mean
from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Wire

__all__ = ["ALL_REDUCE", "Algorithm"]

Algorithm: TypeAlias = Callable[[Sequence[Member], Sequence[Any], Wire], list[list[Any]]]

ALL_REDUCE: Mapping[str, Algorithm] = MappingProxyType(
    {
        "ring": ring_mean,
        "tree": tree_mean,
        "halving_doubling": halving_doubling_mean,
        "rabenseifner": rabenseifner_mean,
        "hierarchical": hierarchical_mean,
        "collective": collective_mean,
    }
)
"""The algorithms by the names that a strategy gives them."""
