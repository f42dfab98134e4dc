"""Parcels: dense shards of a parameter server that travel together, and the number of pieces in which one travels."""

from __future__ import annotations

from collections.abc import Sequence

from autosync.spec.compressor import Cast
from autosync.spec.strategy import shard_sizes
from autosync.spec.synchronizer import ParameterServer

__all__ = ["is_summed_as_it_is", "parcels", "piece_sizes"]

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
