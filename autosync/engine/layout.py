"""The layout of a strategy: every shard with its place in its variable, said in numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from autosync.spec import (
    DTYPE_BYTES,
    AllReduce,
    ModelSpec,
    ParameterServer,
    Strategy,
    Synchronizer,
    Variable,
    is_summed_as_it_is,
    parcels,
    shard_sizes,
)

__all__ = ["Shard", "buckets", "bundles", "on_servers", "parcels_of", "shards_of"]

BUNDLE_BYTES = 1 << 20
"""Buckets are updated together until they are this large; what is that large already need not be copied for it."""


@dataclass(frozen=True)
class Shard:
    """A piece of variable number `variable_index`: rows `start` to `start + size` of axis `axis`."""

    variable: Variable
    variable_index: int
    index: int
    axis: int
    start: int
    size: int
    synchronizer: Synchronizer

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self.variable.shape
        return (*shape[: self.axis], self.size, *shape[self.axis + 1 :]) if shape else ()

    @property
    def elements(self) -> int:
        return self.variable.elements // self.variable.shape[self.axis] * self.size if self.variable.shape else 1


def shards_of(strategy: Strategy, model: ModelSpec) -> tuple[tuple[Shard, ...], ...]:
    """The shards of every variable, in graph order."""
    layout = []
    for number, variable in enumerate(model.variables):
        decided = strategy.by_name[variable.name]
        axis = decided.partition.axis if decided.partition else 0
        rows = variable.shape[axis] if variable.shape else 1
        sizes = shard_sizes(rows, len(decided.shards))
        starts = [0, *accumulate(sizes)]
        layout.append(
            tuple(
                Shard(variable, number, index, axis, starts[index], sizes[index], synchronizer)
                for index, synchronizer in enumerate(decided.shards)
            )
        )
    return tuple(layout)


def buckets(shards: Sequence[Shard]) -> tuple[tuple[Shard, ...], ...]:
    """Dense shards to be all-reduced together, each bucket in the order its gradients become ready.

    Buckets themselves are ordered by when their last gradient is ready, i.e. by when they can start.
    """
    groups: dict[int, list[Shard]] = {}
    for shard in shards:
        if isinstance(shard.synchronizer, AllReduce) and not shard.variable.sparse:
            groups.setdefault(shard.synchronizer.group, []).append(shard)
    ordered = [sorted(group, key=lambda each: (each.variable.ready_order, each.index)) for group in groups.values()]
    return tuple(tuple(group) for group in sorted(ordered, key=lambda group: group[-1].variable.ready_order))


def bundles(filled: Sequence[Sequence[Shard]]) -> tuple[tuple[int, ...], ...]:
    """The numbers of the `buckets` that are updated together: small ones of one dtype, in the order they are ready.

    They too are ordered by when they can start, which is when the last of their buckets has been reduced.
    """
    found: list[tuple[int, ...]] = []
    under_way: dict[str, tuple[list[int], int]] = {}
    for number, bucket in enumerate(filled):
        dtype = bucket[0].variable.dtype
        size = sum(shard.elements for shard in bucket) * DTYPE_BYTES[dtype]
        if size >= BUNDLE_BYTES:
            found.append((number,))
            continue
        members, held = under_way.pop(dtype, ([], 0))
        if held + size < BUNDLE_BYTES:
            under_way[dtype] = ([*members, number], held + size)
        else:
            found.append((*members, number))
    found += [tuple(members) for members, _ in under_way.values()]
    return tuple(sorted(found, key=lambda members: members[-1]))


def on_servers(shards: Sequence[Shard]) -> tuple[Shard, ...]:
    """Shards kept by parameter servers, in the order their gradients become ready."""
    kept = (shard for shard in shards if isinstance(shard.synchronizer, ParameterServer))
    return tuple(sorted(kept, key=lambda each: (each.variable.ready_order, each.index)))


def parcels_of(shards: Sequence[Shard]) -> tuple[tuple[Shard, ...], ...]:
    """The dense ones of `on_servers` that travel together, in the order in which they are ready."""
    alike: dict[tuple[Synchronizer, str], list[Shard]] = {}
    found: list[tuple[Shard, ...]] = []
    for shard in on_servers(shards):
        assert isinstance(shard.synchronizer, ParameterServer)
        if shard.variable.sparse:
            continue
        if is_summed_as_it_is(shard.synchronizer):
            alike.setdefault((shard.synchronizer, shard.variable.dtype), []).append(shard)
        else:
            found.append((shard,))
    for members in alike.values():
        sizes = [shard.elements * DTYPE_BYTES[shard.variable.dtype] for shard in members]
        found += [tuple(members[index] for index in together) for together in parcels(sizes)]
    return tuple(sorted(found, key=lambda parcel: (parcel[-1].variable.ready_order, parcel[-1].index)))
