"""Tensor fusion: the shards that travel together, in buckets and their bundles, in parcels and their pieces."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

from autosync.layout.apart import apart
from autosync.layout.shards import Shard, Slices
from autosync.spec import AllReduce, Cast, ModelSpec, ParameterServer, Strategy, VariableStrategy, shard_sizes

BUCKET, PARCEL, ALONE = range(3)
"""The way a shard travels: in an all-reduced bucket, in a server's parcel, or by itself."""


def way_of(shard: Shard) -> tuple[int, Hashable]:
    """The way a shard travels, and a key: shards with the same way and key may travel together."""
    synchronizer = shard.synchronizer
    if shard.slice.variable.sparse:
        return ALONE, None
    if isinstance(synchronizer, AllReduce):
        return BUCKET, synchronizer.group
    if is_elementwise(synchronizer):
        return PARCEL, (synchronizer, shard.slice.variable.dtype)
    return ALONE, None


class _Groups(NamedTuple):
    buckets: dict[Hashable, list[Shard]]
    parcels: dict[Hashable, list[Shard]]
    alone: list[Shard]


@final
@dataclass(frozen=True)
class Layout:
    """The shards of each variable, and the way they travel: each shard is in one bucket, in one parcel, or `alone`.

    Shards keep the order of `of_variables`, except that a parcel's shards are in the order in which their gradients
    become ready. `as_ready` sorts buckets and parcels in that order.
    """

    of_variables: tuple[tuple[Shard, ...], ...]

    @classmethod
    def of(cls, strategy: Strategy, model: ModelSpec) -> Layout:
        """The layout of a strategy that fits the model, in graph order; rows that are sent apart follow their table."""
        model, strategy = apart(model, strategy)
        decided = strategy.by_name
        slices = Slices(model, len(strategy.replicas))
        return cls.from_decisions(slices, [decided[variable.name] for variable in model.variables])

    @classmethod
    def from_decisions(cls, slices: Slices, decisions: Iterable[VariableStrategy]) -> Layout:
        """The layout of some variables' decisions, in the order of the decisions. Raises as `Slices.of` does."""
        return cls(tuple(map(slices.shards, decisions)))

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        return tuple(shard for shards in self.of_variables for shard in shards)

    @cached_property
    def ways(self) -> tuple[tuple[int, Hashable], ...]:
        """`way_of` every shard."""
        return tuple(map(way_of, self.shards))

    @property
    def buckets(self) -> tuple[tuple[Shard, ...], ...]:
        """Dense shards that are all-reduced together."""
        return tuple(map(tuple, self._groups.buckets.values()))

    @cached_property
    def parcels(self) -> tuple[tuple[Shard, ...], ...]:
        """Dense shards of servers that travel together."""
        filled: list[tuple[Shard, ...]] = []
        for members in self._groups.parcels.values():
            ready = sorted(members, key=lambda shard: shard.slice.order)
            ranges = parcels([shard.slice.bytes for shard in ready])
            filled += (tuple(ready[indices.start : indices.stop]) for indices in ranges)
        return tuple(filled)

    @property
    def alone(self) -> Sequence[Shard]:
        """Sparse shards, and dense shards of servers that are encoded one by one."""
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
    """Sort the shards of each bucket or parcel by when their gradients become ready, and the groups by when they can
    start, which is when the last gradient of the group is ready."""
    ordered = [tuple(sorted(group, key=lambda shard: shard.slice.order)) for group in groups]
    return tuple(sorted(ordered, key=lambda group: group[-1].slice.order))


BUNDLE_BYTES = 1 << 20
"""Buckets are updated together up to this size. A bucket of this size or more is updated alone, without a copy."""


def bundles(filled: Sequence[Sequence[Shard]]) -> tuple[tuple[int, ...], ...]:
    """The numbers of the buckets that are updated together: small buckets of one dtype. `filled` is `as_ready`.

    Bundles too are ordered by when they can start, which is when their last bucket has been reduced.
    """
    complete: list[tuple[int, ...]] = []
    under_way: dict[str, tuple[list[int], int]] = {}
    for number, bucket in enumerate(filled):
        dtype = bucket[0].variable.dtype
        size = sum(shard.slice.bytes for shard in bucket)
        if size >= BUNDLE_BYTES:
            complete.append((number,))
            continue
        members, held = under_way.pop(dtype, ([], 0))
        if held + size < BUNDLE_BYTES:
            under_way[dtype] = ([*members, number], held + size)
        else:
            complete.append((*members, number))
    complete += [tuple(members) for members, _ in under_way.values()]
    return tuple(sorted(complete, key=lambda members: members[-1]))


PARCEL_BYTES = 1 << 18
"""Bytes up to which shards are fused, because a message costs as much as tens of kilobytes of contents."""

PIECE_BYTES, MOST_PIECES = 1 << 18, 32
"""Approximate bytes of each piece of a larger parcel, and the maximum number of pieces, because each costs messages."""


def is_elementwise(synchronizer: ParameterServer) -> bool:
    """Whether every number of a gradient is sent independently of the others, so that shards can be fused and cut.

    A compressor, or the common scale of a message in fp16, belongs to one shard.
    """
    compressor = synchronizer.compressor
    return compressor is None or (isinstance(compressor, Cast) and compressor.dtype == "bf16")


def parcels(shard_bytes: Sequence[int]) -> list[range]:
    """Ranges of indices of shards that travel together. `shard_bytes` are sizes in the order gradients become ready.

    All shards have the same server, dtype and other options, and `is_elementwise` holds for them.
    """
    filled, begin, held = [], 0, 0
    for index, size in enumerate(shard_bytes):
        held += size
        if held >= PARCEL_BYTES or index + 1 == len(shard_bytes):
            filled.append(range(begin, index + 1))
            begin, held = index + 1, 0
    return filled


def piece_sizes(elements: int, item_bytes: int) -> tuple[int, ...]:
    """Split `elements` into pieces of about 256 KB; return the number of elements of each piece."""
    wanted = min(round(elements * item_bytes / PIECE_BYTES), MOST_PIECES)
    return shard_sizes(elements, max(1, wanted)) if elements else (0,)


def pieces_of(parcel: Sequence[Shard]) -> tuple[int, ...]:
    """The number of elements of each piece of a parcel."""
    return piece_sizes(sum(shard.elements for shard in parcel), parcel[0].slice.item_bytes)
