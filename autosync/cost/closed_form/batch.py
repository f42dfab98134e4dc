"""What many strategies use of channels, one entry after the other, all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.cost.closed_form.entries import Entries
from autosync.cost.closed_form.rows import Rows
from autosync.cost.closed_form.tables import CostTables
from autosync.layout.channels import Channel
from autosync.layout.exchange import Quantities
from autosync.layout.together import ALONE, BUCKET, MOST_PIECES, PARCEL, PARCEL_BYTES, PIECE_BYTES
from autosync.spec.algorithms import CHUNKED

IntArray = npt.NDArray[np.intp]
FloatArray = npt.NDArray[np.float64]

PAYLOAD, TOUCHED, HELD, PIECES, GRADIENT = (
    Quantities._fields.index(name)
    for name in ("payload_bytes", "touched_bytes", "held_bytes", "pieces", "gradient_bytes")
)


@dataclass(frozen=True, eq=False)
class Uses:
    """Entry i is `quantities[i]` (7,) of the channel numbered `channel[i]`, at `phase[i]`, of strategy `owner[i]`; it
    stands for `shards[i]` shards that count for that channel.

    Of strategy `chain_owner[j]`, a chain of uses that follow one another sets out at `chain_phase[j]`; its payload
    takes `chain_seconds[j]`, and its latency is `chain_latency[j]`. Bucket k is strategy `bucket_owner[k]`'s.
    """

    owner: IntArray
    phase: IntArray
    channel: IntArray
    quantities: FloatArray
    shards: IntArray
    chain_owner: IntArray
    chain_phase: IntArray
    chain_seconds: FloatArray
    chain_latency: FloatArray
    bucket_owner: IntArray
    bucket_bytes: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[Uses]) -> Uses:
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))


def uses_of_entries(entries: Sequence[Entries], owners: Sequence[int]) -> Uses:
    """The uses of strategies that were gone through one by one."""
    sizes = [len(each.phases) for each in entries]
    chains = [(owner, *chain) for owner, each in zip(owners, entries, strict=True) for chain in each.chains]
    buckets = [(owner, size) for owner, each in zip(owners, entries, strict=True) for size in each.bucket_bytes]
    weights = [weighs for each in entries for weighs in each.quantities]
    return Uses(
        np.repeat(np.array(owners, dtype=np.intp), sizes),
        np.array([phase for each in entries for phase in each.phases], dtype=np.intp),
        np.array([channel for each in entries for channel in each.channels], dtype=np.intp),
        np.array(weights, dtype=np.float64).reshape(-1, len(Quantities._fields)),
        np.array([count for each in entries for count in each.shards], dtype=np.intp),
        *_columns(chains, (np.intp, np.intp, np.float64, np.float64)),
        *_columns(buckets, (np.intp, np.float64)),
    )


def uses_of_rows(
    tables: CostTables, channels: Sequence[Channel], table: Rows, owners: IntArray, places: IntArray
) -> Uses:
    """The uses of strategies that encode nothing; row `places[i]` of `table` is of strategy `owners[i]`, ascending."""
    kinds, parts = table.kind[places], []
    for kind, made in ((ALONE, _alone), (PARCEL, _in_parcels), (BUCKET, _in_buckets)):
        chosen = np.flatnonzero(kinds == kind)
        if len(chosen):
            parts.append(made(tables, channels, table, owners[chosen], places[chosen]))
    return Uses.joined(parts)


def _alone(tables: CostTables, channels: Sequence[Channel], table: Rows, owners: IntArray, places: IntArray) -> Uses:
    del tables, channels
    ones = np.ones(len(owners), dtype=np.intp)
    return _unchained(owners, table.phase[places], table.channel[places], table.quantities[places], ones)


def _in_parcels(
    tables: CostTables, channels: Sequence[Channel], table: Rows, owners: IntArray, places: IntArray
) -> Uses:
    """The uses of shards alike in server and dtype; they travel together as ready, as in `autosync.layout.together`."""
    del tables, channels
    owners, places = _sorted(owners, places, (table.order, table.key))
    held, item_bytes = table.quantities[places, HELD], table.item_bytes[places]
    sizes = np.rint(held).astype(np.int64)
    begins = _parcels(_starts(owners, table.key[places]), sizes)
    ends = np.append(begins[1:], len(sizes))
    elements = np.add.reduceat(sizes, begins) // item_bytes[begins]
    wanted = np.rint(elements * item_bytes[begins] / PIECE_BYTES)
    pieces = np.clip(wanted, 1, MOST_PIECES)
    phase, channel = table.phase[places[ends - 1]], table.channel[places[begins]]
    return _unchained(owners[begins], phase, channel, _dense(np.add.reduceat(held, begins), pieces), ends - begins)


def _parcels(groups: IntArray, sizes: npt.NDArray[np.int64]) -> IntArray:
    """The places where parcels begin, in order: each ends with the shard that makes it large enough, or its group.

    `groups` says where each group begins.
    """
    reached = np.cumsum(sizes)
    last = np.append(groups[1:], len(sizes)) - 1
    begins, found = groups, [groups]
    while len(begins):
        before = reached[begins] - sizes[begins]
        after = np.minimum(np.searchsorted(reached, before + PARCEL_BYTES), last) + 1
        begins, last = after[after <= last], last[after <= last]
        found.append(begins)
    return np.asarray(np.sort(np.concatenate(found)))


def _in_buckets(
    tables: CostTables, channels: Sequence[Channel], table: Rows, owners: IntArray, places: IntArray
) -> Uses:
    """The uses of buckets: each is ready when its last gradient is; the first of its shards names its algorithm."""
    owners, places = _sorted(owners, places, (table.key,))
    held = table.quantities[places, HELD]
    begins = _starts(owners, table.key[places])
    size = np.add.reduceat(held, begins)
    elements = np.add.reduceat(held / table.item_bytes[places], begins)
    chunked = np.array([what in CHUNKED for what, _, _ in channels])
    projected = [tables.projected(channel) for channel in channels]
    phase, owner = np.maximum.reduceat(table.phase[places], begins), owners[begins]
    channel = table.channel[places[begins]]
    pieces = np.where(chunked[channel], np.minimum(1.0, elements / len(tables.replicas)), 1.0)
    seconds = np.array([each.seconds_a_byte for each in projected])[channel] * size
    latency = np.array([each.latency_seconds for each in projected])[channel]
    shards = np.diff(np.append(begins, len(owners)))
    chains = (owner, phase, seconds, latency)
    return Uses(owner, phase, channel, _dense(size, pieces), shards, *chains, owner, size)


def _sorted(owners: IntArray, places: IntArray, columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Owners and places by owner, within an owner by the last of a table's columns, and so on; equals stay in order."""
    short = owners.astype(np.min_scalar_type(owners[-1]))
    order = np.lexsort((*(column[places] for column in columns), short))
    return owners[order], places[order]


def _starts(owners: IntArray, keys: IntArray) -> IntArray:
    """The places where rows, sorted by both, come to another owner or key."""
    differs = np.ones(len(owners), dtype=np.bool_)
    differs[1:] = (owners[1:] != owners[:-1]) | (keys[1:] != keys[:-1])
    return np.flatnonzero(differs)


def _dense(size: FloatArray, pieces: FloatArray) -> FloatArray:
    """Quantities of gradients that travel as they are, (n, 7)."""
    weighs = np.zeros((len(size), len(Quantities._fields)))
    weighs[:, [PAYLOAD, TOUCHED, HELD, GRADIENT]] = size[:, None]
    weighs[:, PIECES] = pieces
    return weighs


def _unchained(owner: IntArray, phase: IntArray, channel: IntArray, quantities: FloatArray, shards: IntArray) -> Uses:
    none, nothing = np.zeros(0, dtype=np.intp), np.zeros(0)
    return Uses(owner, phase, channel, quantities, shards, none, none, nothing, nothing, none, nothing)


def _columns(rows: Sequence[tuple[float, ...]], types: Sequence[npt.DTypeLike]) -> list[Any]:
    """The columns of a table with rows of `types`, or of none."""
    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    return [np.array(column, dtype=kind) for column, kind in zip(columns, types, strict=True)]
