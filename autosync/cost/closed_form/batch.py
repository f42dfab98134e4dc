"""Vectorized channel uses of many strategies: one entry per use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.cost.closed_form.entries import Entries
from autosync.cost.closed_form.rows import ShardRows
from autosync.cost.closed_form.tables import CostTables
from autosync.layout.channels import Channel
from autosync.layout.exchange import Quantities
from autosync.layout.fusion import ALONE, BUCKET, MOST_PIECES, PARCEL, PARCEL_BYTES, PIECE_BYTES
from autosync.numeric import FloatArray, IndexArray
from autosync.spec.algorithms import CHUNKED

PAYLOAD, TOUCHED, HELD, PIECES, GRADIENT = (
    Quantities._fields.index(name)
    for name in ("payload_bytes", "touched_bytes", "held_bytes", "pieces", "gradient_bytes")
)


@dataclass(frozen=True, eq=False)
class Uses:
    """n uses, c chains of uses that follow one another, and b buckets, of many strategies."""

    owner: IndexArray
    """The strategy of each use, (n,)."""

    phase: IndexArray
    """The phase of the backward pass at which each use begins, (n,)."""

    channel: IndexArray
    """The number of each use's channel, (n,)."""

    quantities: FloatArray
    """The quantities of each use, (n, 8)."""

    shards: IndexArray
    """The number of shards that each use adds to its channel's count, (n,)."""

    chain_owner: IndexArray
    """The strategy of each chain, (c,)."""

    chain_phase: IndexArray
    """The phase at which each chain begins, (c,)."""

    chain_seconds: FloatArray
    """Seconds of each chain's payload, (c,)."""

    chain_latency: FloatArray
    """Seconds of each chain's latency, (c,)."""

    bucket_owner: IndexArray
    """The strategy of each bucket, (b,)."""

    bucket_bytes: FloatArray
    """Bytes of each bucket, (b,)."""

    @classmethod
    def join(cls, parts: Sequence[Uses]) -> Uses:
        return cls(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)))


def uses_of_entries(entries: Sequence[Entries], owners: Sequence[int]) -> Uses:
    """The uses of strategies that are processed one by one."""
    sizes = [len(of_owner.phases) for of_owner in entries]
    owned = list(zip(owners, entries, strict=True))
    chains = [(owner, *chain) for owner, of_owner in owned for chain in of_owner.chains]
    buckets = [(owner, size) for owner, of_owner in owned for size in of_owner.bucket_bytes]
    weights = [weighs for of_owner in entries for weighs in of_owner.quantities]
    return Uses(
        np.repeat(np.array(owners, dtype=np.intp), sizes),
        np.array([phase for of_owner in entries for phase in of_owner.phases], dtype=np.intp),
        np.array([channel for of_owner in entries for channel in of_owner.channels], dtype=np.intp),
        np.array(weights, dtype=np.float64).reshape(-1, len(Quantities._fields)),
        np.array([count for of_owner in entries for count in of_owner.shards], dtype=np.intp),
        *_columns(chains, (np.intp, np.intp, np.float64, np.float64)),
        *_columns(buckets, (np.intp, np.float64)),
    )


def uses_of_rows(
    tables: CostTables, channels: Sequence[Channel], table: ShardRows, owners: IndexArray, places: IndexArray
) -> Uses:
    """The uses of strategies without compression. Row `places[i]` of `table` belongs to strategy `owners[i]`; owners
    ascend."""
    kinds, parts = table.kind[places], []
    for kind, uses_of in ((ALONE, _of_single_shards), (PARCEL, _of_parcels), (BUCKET, _of_buckets)):
        chosen = np.flatnonzero(kinds == kind)
        if len(chosen):
            parts.append(uses_of(tables, channels, table, owners[chosen], places[chosen]))
    return Uses.join(parts)


def _of_single_shards(
    tables: CostTables, channels: Sequence[Channel], table: ShardRows, owners: IndexArray, places: IndexArray
) -> Uses:
    del tables, channels
    ones = np.ones(len(owners), dtype=np.intp)
    return _without_chains(owners, table.phase[places], table.channel[places], table.quantities[places], ones)


def _of_parcels(
    tables: CostTables, channels: Sequence[Channel], table: ShardRows, owners: IndexArray, places: IndexArray
) -> Uses:
    """The uses of shards that share server and dtype. They are fused in ready order, as in `autosync.layout.fusion`."""
    del tables, channels
    owners, places = _sort(owners, places, (table.order, table.key))
    held, item_bytes = table.quantities[places, HELD], table.item_bytes[places]
    sizes = np.rint(held).astype(np.int64)
    begins = _parcels(_starts(owners, table.key[places]), sizes)
    ends = np.append(begins[1:], len(sizes))
    elements = np.add.reduceat(sizes, begins) // item_bytes[begins]
    wanted = np.rint(elements * item_bytes[begins] / PIECE_BYTES)
    pieces = np.clip(wanted, 1, MOST_PIECES)
    phase, channel = table.phase[places[ends - 1]], table.channel[places[begins]]
    return _without_chains(owners[begins], phase, channel, _dense(np.add.reduceat(held, begins), pieces), ends - begins)


def _parcels(groups: IndexArray, sizes: npt.NDArray[np.int64]) -> IndexArray:
    """The places where parcels begin, in order. A parcel ends with the shard that makes it large enough, or with its
    group. `groups` are the places where groups begin.
    """
    reached = np.cumsum(sizes)
    last = np.append(groups[1:], len(sizes)) - 1
    begins, all_begins = groups, [groups]
    while len(begins):
        before = reached[begins] - sizes[begins]
        after = np.minimum(np.searchsorted(reached, before + PARCEL_BYTES), last) + 1
        begins, last = after[after <= last], last[after <= last]
        all_begins.append(begins)
    return np.asarray(np.sort(np.concatenate(all_begins)))


def _of_buckets(
    tables: CostTables, channels: Sequence[Channel], table: ShardRows, owners: IndexArray, places: IndexArray
) -> Uses:
    """The uses of buckets. A bucket is ready with its last gradient, and its first shard determines the algorithm."""
    owners, places = _sort(owners, places, (table.key,))
    held = table.quantities[places, HELD]
    begins = _starts(owners, table.key[places])
    size = np.add.reduceat(held, begins)
    elements = np.add.reduceat(held / table.item_bytes[places], begins)
    chunked = np.array([kind in CHUNKED for kind, _, _ in channels])
    loads = [tables.exchange_loads(channel) for channel in channels]
    phase, owner = np.maximum.reduceat(table.phase[places], begins), owners[begins]
    channel = table.channel[places[begins]]
    pieces = np.where(chunked[channel], np.minimum(1.0, elements / len(tables.replicas)), 1.0)
    seconds = np.array([of_channel.seconds_a_byte for of_channel in loads])[channel] * size
    latency = np.array([of_channel.latency_seconds for of_channel in loads])[channel]
    shards = np.diff(np.append(begins, len(owners)))
    chains = (owner, phase, seconds, latency)
    return Uses(owner, phase, channel, _dense(size, pieces), shards, *chains, owner, size)


def _sort(owners: IndexArray, places: IndexArray, columns: Sequence[IndexArray]) -> tuple[IndexArray, IndexArray]:
    """Sort owners and places by owner, then by the last of `columns`, then by the column before it, etc.; stable."""
    short = owners.astype(np.min_scalar_type(owners[-1]))
    order = np.lexsort((*(column[places] for column in columns), short))
    return owners[order], places[order]


def _starts(owners: IndexArray, keys: IndexArray) -> IndexArray:
    """The places where the owner or the key changes, in rows sorted by both."""
    differs = np.ones(len(owners), dtype=np.bool_)
    differs[1:] = (owners[1:] != owners[:-1]) | (keys[1:] != keys[:-1])
    return np.flatnonzero(differs)


def _dense(size: FloatArray, pieces: FloatArray) -> FloatArray:
    """Quantities of gradients without compression, (n, 8)."""
    weighs = np.zeros((len(size), len(Quantities._fields)))
    weighs[:, [PAYLOAD, TOUCHED, HELD, GRADIENT]] = size[:, None]
    weighs[:, PIECES] = pieces
    return weighs


def _without_chains(
    owner: IndexArray, phase: IndexArray, channel: IndexArray, quantities: FloatArray, shards: IndexArray
) -> Uses:
    none, nothing = np.zeros(0, dtype=np.intp), np.zeros(0)
    return Uses(owner, phase, channel, quantities, shards, none, none, nothing, nothing, none, nothing)


def _columns(rows: Sequence[tuple[float, ...]], types: Sequence[npt.DTypeLike]) -> list[Any]:
    """The columns of a table whose rows have `types`; the table may be empty."""
    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    return [np.array(column, dtype=kind) for column, kind in zip(columns, types, strict=True)]
