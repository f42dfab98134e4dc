"""Shipments: gradients that travel together, and by which channels, as the engine lays them out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from autosync.cost.sending import Use, bucket_uses, cast_rows_uses, server_uses
from autosync.layout.channels import Channel
from autosync.layout.coding import CompressedShard
from autosync.layout.exchange import Quantities
from autosync.layout.together import is_summed_as_it_is, parcels, piece_sizes
from autosync.layout.weights import VariableTable
from autosync.spec import AllReduce, ParameterServer, Strategy, SufficientFactors, Synchronizer
from autosync.spec.algorithms import CHUNKED

__all__ = ["Shipment", "shipments"]

MOST_SERVER_SHIPMENTS = 512
"""The most shipments of shards on servers: where there would be more, a parcel's pieces are taken for fewer."""


@dataclass(frozen=True)
class Shipment:
    """`uses` follow one another, from when the last gradient of `variables` is ready.

    With `pulls`, values are fetched before the forward pass, not sent on after the update. `order` is the last one's
    place among gradients as they become ready, and its shard's number. Of a parcel in pieces, each has its part of the
    `shards`.
    """

    variables: tuple[str, ...]
    order: tuple[int, int]
    uses: tuple[Use, ...]
    pulls: bool = False
    shards: float = 1.0


class _Shard(NamedTuple):
    """One shard of a variable: its synchronizer, number, and what it weighs."""

    table: VariableTable
    synchronizer: Synchronizer
    number: int
    quantities: Quantities
    shape: tuple[int, ...]

    @property
    def order(self) -> tuple[int, int]:
        return self.table.variable.ready_order, self.number

    @property
    def name(self) -> str:
        return self.table.variable.name

    @property
    def compressible(self) -> CompressedShard:
        return CompressedShard(self.shape, self.table.item_bytes, self.table.variable.factor_rows)


@dataclass
class _Sorted:
    """A strategy's shards by how they travel."""

    buckets: dict[int, list[_Shard]] = field(default_factory=dict)
    alike: dict[tuple[ParameterServer, str], list[_Shard]] = field(default_factory=dict)
    alone: list[_Shard] = field(default_factory=list)

    def add(self, shard: _Shard) -> None:
        synchronizer, variable = shard.synchronizer, shard.table.variable
        if variable.sparse:
            self.alone.append(shard)
        elif isinstance(synchronizer, AllReduce):
            self.buckets.setdefault(synchronizer.group, []).append(shard)
        elif is_summed_as_it_is(synchronizer):
            self.alike.setdefault((synchronizer, variable.dtype), []).append(shard)
        else:
            self.alone.append(shard)


def shipments(tables: Mapping[str, VariableTable], strategy: Strategy) -> list[Shipment]:
    """The shipments, in the order in which they are ready. Raises `KeyError` or `ValueError` for a misfit."""
    if len(strategy.variables) != len(tables):
        raise ValueError("it does not decide every variable once")
    by_way, replicas = _Sorted(), len(strategy.replicas)
    for each in strategy.variables:
        table = tables[each.variable]
        shapes = table.shapes(each.partition)
        for index, (synchronizer, quantities) in enumerate(zip(each.shards, table.shards(each.partition), strict=True)):
            by_way.add(_Shard(table, synchronizer, index, quantities, shapes[index]))
    found = [_bucket(shards, replicas) for shards in by_way.buckets.values()]
    found += [_alone(shard, replicas) for shard in by_way.alone]
    found += _parcels(by_way, replicas)
    return sorted(found, key=lambda each: each.order)


def _shipment(shards: Sequence[_Shard], uses: Sequence[Use], pulls: bool = False) -> Shipment:
    names = tuple(dict.fromkeys(shard.name for shard in shards))
    return Shipment(names, max(shard.order for shard in shards), _in_order(uses), pulls, float(len(shards)))


def _in_order(uses: Sequence[Use]) -> tuple[Use, ...]:
    """The uses in order: encoding comes first, what a server decodes after the gradients, and new values last."""
    rank = {"coding": 0, "server_coding": 2, "pull": 3}
    return tuple(sorted(uses, key=lambda use: rank.get(use.channel[0], 1)))


def _bucket(shards: Sequence[_Shard], replicas: int) -> Shipment:
    synchronizer = shards[0].synchronizer
    assert isinstance(synchronizer, AllReduce)
    size = sum(shard.quantities.held_bytes for shard in shards)
    pieces = 1.0
    if synchronizer.algorithm in CHUNKED:
        pieces = min(1.0, size / shards[0].table.item_bytes / replicas)
    if synchronizer.compressor is None:
        whole = Quantities(size, 0.0, size, size, pieces, 0.0, size)
        return _shipment(shards, [Use((synchronizer.algorithm, "", False), whole)])
    uses = bucket_uses(synchronizer, [shard.compressible for shard in shards], pieces, replicas)
    found = _shipment(shards, uses)
    if isinstance(synchronizer.compressor, SufficientFactors):
        return replace(found, uses=tuple(uses))  # multiplied out once they are there
    return found


def _alone(shard: _Shard, replicas: int) -> Shipment:
    """The shipment of a sparse shard, or of a dense one on a server whose compressor works on it alone."""
    synchronizer, quantities = shard.synchronizer, shard.quantities
    if not shard.table.variable.sparse:
        assert isinstance(synchronizer, ParameterServer)
        return _shipment([shard], server_uses(synchronizer, shard.compressible, replicas))
    channel: Channel = ("gathered_rows", "", False)
    if isinstance(synchronizer, ParameterServer):
        channel = ("sparse_server", synchronizer.device, False)
    uses = [Use(channel, quantities)]
    if synchronizer.compressor is not None:
        uses = cast_rows_uses(channel, quantities, shard.table.item_bytes, synchronizer.compressor)
    return _shipment([shard], uses, pulls=isinstance(synchronizer, ParameterServer))


def _parcels(by_way: _Sorted, replicas: int) -> Iterator[Shipment]:
    """The shipments of dense shards on servers, as many together as the engine sends, each of its pieces for itself."""
    together = []
    for (synchronizer, _), members in by_way.alike.items():
        ordered = sorted(members, key=lambda shard: shard.order)
        for chosen in parcels([int(shard.quantities.held_bytes) for shard in ordered]):
            together.append((synchronizer, [ordered[index] for index in chosen]))
    most = max(1, MOST_SERVER_SHIPMENTS // max(1, len(together)))
    for synchronizer, shards in together:
        parcel = CompressedShard((sum(math.prod(shard.shape) for shard in shards),), shards[0].table.item_bytes)
        pieces = len(piece_sizes(parcel.elements, parcel.item_bytes))
        count = min(pieces, most)
        uses = [_cut(use, 1 / count, pieces / count) for use in _server_uses(synchronizer, parcel, replicas)]
        whole = _shipment(shards, uses, pulls=synchronizer.staleness > 0)
        yield from [replace(whole, shards=whole.shards / count)] * count


def _server_uses(synchronizer: ParameterServer, parcel: CompressedShard, replicas: int) -> list[Use]:
    if synchronizer.compressor is not None:
        return server_uses(synchronizer, parcel, replicas)
    size = float(parcel.bytes)
    channel: Channel = ("dense_server", synchronizer.device, synchronizer.local_copy)
    return [Use(channel, Quantities(size, 0.0, size, size, 1.0, 0.0, size))]


def _cut(use: Use, share: float, messages: float) -> Use:
    """A `share` of a use, which goes in so many messages where the whole would go in one."""
    return Use(use.channel, Quantities(*(value * share for value in use.quantities))._replace(pieces=messages))
