"""Shipments: gradients that travel together, and by which channels, as the engine lays them out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autosync.cost.sending import Use, uses_of
from autosync.layout.exchange import Quantities
from autosync.layout.shards import Shard, Slices
from autosync.layout.together import Layout, pieces_of
from autosync.spec import ParameterServer, Strategy, SufficientFactors

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


def shipments(slices: Slices, strategy: Strategy) -> list[Shipment]:
    """The shipments, in the order in which they are ready. Raises `KeyError` or `ValueError` for a misfit."""
    if len(strategy.variables) != len(slices):
        raise ValueError("it does not decide every variable once")
    layout, replicas = Layout.made(slices, strategy.variables), len(strategy.replicas)
    found = [_shipment(each, replicas) for each in (*layout.buckets, *((shard,) for shard in layout.alone))]
    return sorted([*found, *_parcels(layout.parcels, replicas)], key=lambda each: each.order)


def _shipment(shards: Sequence[Shard], replicas: int) -> Shipment:
    names = tuple(dict.fromkeys(shard.variable.name for shard in shards))
    by, sparse = shards[0].synchronizer, shards[0].variable.sparse
    pulls = isinstance(by, ParameterServer) and (sparse or by.staleness > 0)
    uses = _in_order(uses_of(shards, replicas), isinstance(by.compressor, SufficientFactors))
    return Shipment(names, max(shard.slice.order for shard in shards), uses, pulls, float(len(shards)))


def _in_order(uses: Sequence[Use], factors: bool) -> tuple[Use, ...]:
    """The uses in order: encoding comes first, then gradients, what is decoded or multiplied out, and new values."""
    rank = {"coding": 2 if factors else 0, "server_coding": 2, "pull": 3}
    return tuple(sorted(uses, key=lambda use: rank.get(use.channel[0], 1)))


def _parcels(parcels: Sequence[Sequence[Shard]], replicas: int) -> Iterator[Shipment]:
    """The shipments of parcels, each of a parcel's pieces for itself."""
    most = max(1, MOST_SERVER_SHIPMENTS // max(1, len(parcels)))
    for parcel in parcels:
        pieces = len(pieces_of(parcel))
        count = min(pieces, most)
        whole = _shipment(parcel, replicas)
        uses = tuple(_cut(use, 1 / count, pieces / count) for use in whole.uses)
        yield from [replace(whole, uses=uses, shards=whole.shards / count)] * count


def _cut(use: Use, share: float, messages: float) -> Use:
    """A `share` of a use, which goes in so many messages where the whole would go in one."""
    if share == 1.0 and use.quantities.pieces == messages:
        return use
    return Use(use.channel, Quantities(*(value * share for value in use.quantities))._replace(pieces=messages))
