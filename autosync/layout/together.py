"""A strategy laid out: which shards travel together, in buckets and their bundles, in parcels and their pieces."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

from autosync.layout.shards import Shard, Slices
from autosync.spec import AllReduce, Cast, ModelSpec, ParameterServer, Strategy, VariableStrategy, shard_sizes

BUCKET, PARCEL, ALONE = range(3)
"""How a shard travels: in an all-reduced bucket, in a server's parcel, by itself."""


def way_of(shard: Shard) -> tuple[int, Hashable]:
    """How a shard travels, and the key of all those that it may travel with."""
    synchronizer = shard.synchronizer
    if shard.slice.variable.sparse:
        return ALONE, None
    if isinstance(synchronizer, AllReduce):
        return BUCKET, synchronizer.group
    if is_summed_as_it_is(synchronizer):
        return PARCEL, (synchronizer, shard.slice.variable.dtype)
    return ALONE, None


class _Groups(NamedTuple):
    buckets: dict[Hashable, list[Shard]]
    parcels: dict[Hashable, list[Shard]]
    alone: list[Shard]


@final
@dataclass(frozen=True)
class Layout:
    """The shards of each variable, and how they travel: each is in one bucket, in one parcel, or `alone`.

    All is in the order of the shards as they are given, but that a parcel's are in the order they become ready;
    `as_ready` sorts the rest.
    """

    of_variables: tuple[tuple[Shard, ...], ...]

    @classmethod
    def of(cls, strategy: Strategy, model: ModelSpec) -> Layout:
        """The layout of a strategy that fits the model, in graph order."""
        decided = strategy.by_name
        return cls.made(Slices(model), [decided[variable.name] for variable in model.variables])

    @classmethod
    def made(cls, slices: Slices, decisions: Iterable[VariableStrategy]) -> Layout:
        """The layout of some variables' decisions, in their order. Raises as `Slices.of` does."""
        return cls(tuple(map(slices.shards, decisions)))

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        return tuple(shard for shards in self.of_variables for shard in shards)

    @cached_property
    def ways(self) -> tuple[tuple[int, Hashable], ...]:
        """`way_of` each of the shards."""
        return tuple(map(way_of, self.shards))

    @property
    def buckets(self) -> tuple[tuple[Shard, ...], ...]:
        """Dense shards that are all-reduced together."""
        return tuple(map(tuple, self._groups.buckets.values()))

    @cached_property
    def parcels(self) -> tuple[tuple[Shard, ...], ...]:
        """Dense shards of servers that travel together."""
        found: list[tuple[Shard, ...]] = []
        for members in self._groups.parcels.values():
            ready = sorted(members, key=lambda shard: shard.slice.order)
            found += (tuple(ready[one.start : one.stop]) for one in parcels([each.slice.bytes for each in ready]))
        return tuple(found)

    @property
    def alone(self) -> Sequence[Shard]:
        """Sparse shards, and dense ones of servers that are encoded each by itself."""
        return self._groups.alone

    @cached_property
    def _groups(self) -> _Groups:
        buckets, alike, alone = groups = _Groups({}, {}, [])
        for shard, (way, key) in zip(self.shards, self.ways, strict=True):
            if way == ALONE:
                alone.append(shard)
            else:
                (buckets if way == BUCKET else alike).setdefault(key, []).append(shard)
        return groups


def as_ready(groups: Iterable[Sequence[Shard]]) -> tuple[tuple[Shard, ...], ...]:
    """Each of some buckets or parcels in the order its gradients become ready; these by when they can start, which is
    when the last is."""
    ordered = [tuple(sorted(group, key=lambda shard: shard.slice.order)) for group in groups]
    return tuple(sorted(ordered, key=lambda group: group[-1].slice.order))


BUNDLE_BYTES = 1 << 20
"""Buckets are updated together until they are this large; what is that large already need not be copied for it."""


def bundles(filled: Sequence[Sequence[Shard]]) -> tuple[tuple[int, ...], ...]:
    """The numbers of the buckets, `as_ready`, that are updated together: small ones of one dtype, as they are ready.

    They too are ordered by when they can start, which is when the last of their buckets has been reduced.
    """
    found: list[tuple[int, ...]] = []
    under_way: dict[str, tuple[list[int], int]] = {}
    for number, bucket in enumerate(filled):
        dtype = bucket[0].variable.dtype
        size = sum(shard.slice.bytes for shard in bucket)
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


PARCEL_BYTES = 1 << 18
"""Bytes up to which shards are put together: a message costs as much as tens of kilobytes of contents."""

PIECE_BYTES, MOST_PIECES = 1 << 18, 32
"""Bytes of each piece of what is larger, about, and the most pieces: each costs messages."""


def is_summed_as_it_is(synchronizer: ParameterServer) -> bool:
    """Whether a gradient's numbers travel each for itself, so that shards may be put together and cut at will.

    A compressor, and the common scale of a message in fp16, belong to one shard.
    """
    compressor = synchronizer.compressor
    return compressor is None or (isinstance(compressor, Cast) and compressor.dtype == "bf16")


def parcels(shard_bytes: Sequence[int]) -> list[range]:
    """The shards of these sizes, given as their gradients become ready, that travel together: as ranges of indices.

    They are alike in server, dtype and all else, and are `is_summed_as_it_is`.
    """
    found, begin, held = [], 0, 0
    for index, size in enumerate(shard_bytes):
        held += size
        if held >= PARCEL_BYTES or index + 1 == len(shard_bytes):
            found.append(range(begin, index + 1))
            begin, held = index + 1, 0
    return found


def piece_sizes(elements: int, item_bytes: int) -> tuple[int, ...]:
    """Elements of each piece of so many elements."""
    wanted = min(round(elements * item_bytes / PIECE_BYTES), MOST_PIECES)
    return shard_sizes(elements, max(1, wanted)) if elements else (0,)


def pieces_of(parcel: Sequence[Shard]) -> tuple[int, ...]:
    """Elements of each piece of a parcel."""
    return piece_sizes(sum(shard.elements for shard in parcel), parcel[0].slice.item_bytes)
