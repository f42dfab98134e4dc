"""What travels together: buckets, bundles to be updated, and parcels of a server's shards, in pieces."""

from __future__ import annotations

from collections.abc import Sequence

from autosync.layout.shards import Shard
from autosync.spec import DTYPE_BYTES, AllReduce, Cast, ParameterServer, Synchronizer, shard_sizes

__all__ = ["buckets", "bundles", "is_summed_as_it_is", "on_servers", "parcels", "parcels_of", "piece_sizes"]

BUNDLE_BYTES = 1 << 20
"""Buckets are updated together until they are this large; what is that large already need not be copied for it."""


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
    """Elements of each piece of a parcel."""
    wanted = min(round(elements * item_bytes / PIECE_BYTES), MOST_PIECES)
    return shard_sizes(elements, max(1, wanted)) if elements else (0,)
