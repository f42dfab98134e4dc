"""Decisions of one strategy as uses of channels at points of the backward pass, however gradients are encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autosync.cost.closed_form.rows import channel_of
from autosync.cost.closed_form.tables import CostTables
from autosync.cost.sending import Use, bucket_uses, cast_rows_uses, server_uses
from autosync.layout.channels import Channel
from autosync.layout.coding import CompressedShard
from autosync.layout.exchange import Quantities
from autosync.layout.together import is_summed_as_it_is, parcels, piece_sizes
from autosync.layout.weights import VariableTable
from autosync.spec import AllReduce, ParameterServer, VariableStrategy
from autosync.spec.algorithms import CHUNKED

__all__ = ["Entries", "entries_of"]


@dataclass
class Entries:
    """What decisions use: entry i is `quantities[i]` of channel `channels[i]` at phase `phases[i]`, and stands for
    `shards[i]` shards that count for that channel.

    `numbers` gives channels their numbers; strategies costed together share it.
    `chains` holds, for each bucket and compressed shard, the phase from which on its uses follow one another, the
    seconds its payload takes and its latency.
    """

    numbers: dict[Channel, int]
    phases: list[int] = field(default_factory=list)
    channels: list[int] = field(default_factory=list)
    quantities: list[Quantities] = field(default_factory=list)
    shards: list[int] = field(default_factory=list)
    bucket_bytes: list[float] = field(default_factory=list)
    chains: list[tuple[int, float, float]] = field(default_factory=list)

    def add(self, tables: CostTables, phase: int, uses: list[Use], shards: int = 1) -> None:
        """Add uses that follow one another; the shards count for the channel that their gradients are in."""
        seconds = latency = 0.0
        for channel, quantities in uses:
            number = self.numbers.setdefault(channel, len(self.numbers))
            self.phases.append(phase)
            self.channels.append(number)
            self.quantities.append(quantities)
            self.shards.append(shards if quantities.gradient_bytes else 0)
            projected = tables.projected(channel)
            seconds += projected.seconds_a_byte * quantities.payload_bytes
            latency += projected.latency_seconds
        self.chains.append((phase, seconds, latency))


@dataclass
class _Bucket:
    """A bucket being filled; it is ready when its last gradient is. `compressed` lists its shards if they are."""

    synchronizer: AllReduce
    payload_bytes: float = 0.0
    elements: float = 0.0
    phase: int = 0
    shards: int = 0
    compressed: list[CompressedShard] = field(default_factory=list)

    def add(self, payload_bytes: float, table: VariableTable) -> None:
        self.payload_bytes += payload_bytes
        self.elements += payload_bytes * table.elements_a_byte
        self.shards += 1
        if table.phase > self.phase:
            self.phase = table.phase

    def uses(self, replicas: int) -> list[Use]:
        algorithm = self.synchronizer.algorithm
        pieces = min(1.0, self.elements / replicas) if algorithm in CHUNKED else 1.0
        if self.compressed:
            return bucket_uses(self.synchronizer, self.compressed, pieces, replicas)
        size = self.payload_bytes
        return [Use((algorithm, "", False), Quantities(size, 0.0, size, size, pieces, 0.0, size))]


class _Served(NamedTuple):
    """A dense shard on a server, each of whose numbers travels for itself."""

    ready_order: int
    number: int
    table: VariableTable
    decided: VariableStrategy
    quantities: Quantities


def _add_parcels(entries: Entries, tables: CostTables, server: ParameterServer, members: list[_Served]) -> None:
    """Add shards alike in server and dtype, in the order they are ready: each with its share of the messages."""
    number = entries.numbers.setdefault(channel_of(server, sparse=False), len(entries.numbers))
    sizes = [round(each.quantities.held_bytes) for each in members]
    for together in parcels(sizes):
        item_bytes = members[together[0]].table.item_bytes
        messages = len(piece_sizes(sum(sizes[index] for index in together) // item_bytes, item_bytes))
        phase = members[together[-1]].table.phase
        for index in together:
            each = members[index]
            if server.compressor is not None:
                uses = _compressed_uses(tables, each.decided, each.number, each.quantities)
                share = uses[0].quantities._replace(pieces=messages / len(together))
                entries.add(tables, phase, [Use(uses[0].channel, share), *uses[1:]])
                continue
            entries.phases.append(phase)
            entries.channels.append(number)
            entries.quantities.append(each.quantities._replace(pieces=messages / len(together)))
            entries.shards.append(1)


def entries_of(tables: CostTables, decisions: Sequence[VariableStrategy], numbers: dict[Channel, int]) -> Entries:
    """The entries of a strategy's decisions: of all, or of some that share no bucket or parcel with the others.

    Raises `KeyError`, `IndexError` or `ValueError` when they do not fit.
    """
    entries = Entries(numbers)
    phases, channels, weights, counts = entries.phases, entries.channels, entries.quantities, entries.shards
    buckets: dict[int, _Bucket] = {}
    to_servers: dict[tuple[ParameterServer, str], list[_Served]] = {}
    for each in decisions:
        table = tables.variables[each.variable]
        sparse = table.variable.sparse
        for index, (shard, quantities) in enumerate(zip(each.shards, table.shards(each.partition), strict=True)):
            if not sparse and isinstance(shard, AllReduce):
                bucket = buckets.get(shard.group)
                if bucket is None:
                    bucket = buckets[shard.group] = _Bucket(shard)
                bucket.add(quantities.payload_bytes, table)
                if shard.compressor is not None:
                    bucket.compressed.append(_compressed(table, each, index))
            elif not sparse and isinstance(shard, ParameterServer) and is_summed_as_it_is(shard):
                served = _Served(table.variable.ready_order, index, table, each, quantities)
                to_servers.setdefault((shard, table.variable.dtype), []).append(served)
            elif shard.compressor is not None:
                entries.add(tables, table.phase, _compressed_uses(tables, each, index, quantities))
            else:
                number = numbers.setdefault(channel_of(shard, sparse), len(numbers))
                phases.append(table.phase)
                channels.append(number)
                weights.append(quantities)
                counts.append(1)
    for (server, _), members in to_servers.items():
        _add_parcels(entries, tables, server, sorted(members, key=lambda each: (each.ready_order, each.number)))
    for bucket in buckets.values():
        entries.add(tables, bucket.phase, bucket.uses(len(tables.replicas)), bucket.shards)
        entries.bucket_bytes.append(bucket.payload_bytes)
    return entries


def _compressed(table: VariableTable, each: VariableStrategy, index: int) -> CompressedShard:
    return CompressedShard(table.shapes(each.partition)[index], table.item_bytes, table.variable.factor_rows)


def _compressed_uses(tables: CostTables, each: VariableStrategy, index: int, whole: Quantities) -> list[Use]:
    """The uses of a compressed shard that is in no bucket: on a server, or sparse."""
    shard, table = each.shards[index], tables.variables[each.variable]
    if table.variable.sparse and shard.compressor:
        return cast_rows_uses(channel_of(shard, sparse=True), whole, table.item_bytes, shard.compressor)
    assert isinstance(shard, ParameterServer)
    return server_uses(shard, _compressed(table, each, index), len(tables.replicas))
