"""Shipments: gradients that travel together and the channels they use, as laid out by the engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autosync.cost.channel_uses import Use, uses_of
from autosync.layout.exchange import Quantities
from autosync.layout.fusion import Layout, pieces_of
from autosync.layout.shards import Shard, Slices
from autosync.spec import ParameterServer, Strategy, SufficientFactors

MOST_SERVER_SHIPMENTS = 512
"""The maximum number of shipments of shards on servers. If there would be more, a parcel's pieces are merged."""


@dataclass(frozen=True)
class Shipment:
    """Gradients that travel together, once the last of them is ready."""

    variables: tuple[str, ...]

    order: tuple[int, int]
    """The last gradient's place in the order in which gradients become ready, and its shard's number."""

    uses: tuple[Use, ...]
    """The uses of channels, which follow one another."""

    pulls: bool = False
    """Whether values are fetched before the forward pass, rather than sent after the update."""

    shards: float = 1.0
    """The number of shards; a piece of a parcel has its share of the parcel's shards."""


def shipments(slices: Slices, strategy: Strategy) -> list[Shipment]:
    """The shipments in the order in which they become ready. Raises `KeyError` or `ValueError` for a misfit."""
    if len(strategy.variables) != len(slices):
        raise ValueError("the strategy does not decide every variable exactly once")
    layout, replicas = Layout.from_decisions(slices, strategy.variables), len(strategy.replicas)
    whole = [_shipment(shards, replicas) for shards in (*layout.buckets, *((shard,) for shard in layout.alone))]
    return sorted([*whole, *_parcels(layout.parcels, replicas)], key=lambda shipment: shipment.order)


def _shipment(shards: Sequence[Shard], replicas: int) -> Shipment:
    names = tuple(dict.fromkeys(shard.variable.name for shard in shards))
    by, sparse = shards[0].synchronizer, shards[0].variable.sparse
    pulls = isinstance(by, ParameterServer) and (sparse or by.staleness > 0)
    uses = _in_order(uses_of(shards, replicas), isinstance(by.compressor, SufficientFactors))
    return Shipment(names, max(shard.slice.order for shard in shards), uses, pulls, float(len(shards)))


def _in_order(uses: Sequence[Use], factors: bool) -> tuple[Use, ...]:
    """The uses in order: encoding, gradients, decoding or multiplication of factors, new values."""
    rank = {"coding": 2 if factors else 0, "server_coding": 2, "pull": 3}
    return tuple(sorted(uses, key=lambda use: rank.get(use.channel[0], 1)))


def _parcels(parcels: Sequence[Sequence[Shard]], replicas: int) -> Iterator[Shipment]:
    """The shipments of parcels, one per piece of a parcel."""
    most = max(1, MOST_SERVER_SHIPMENTS // max(1, len(parcels)))
    for parcel in parcels:
        pieces = len(pieces_of(parcel))
        count = min(pieces, most)
        whole = _shipment(parcel, replicas)
        uses = tuple(_cut(use, 1 / count, pieces / count) for use in whole.uses)
        yield from [replace(whole, uses=uses, shards=whole.shards / count)] * count


def _cut(use: Use, share: float, messages: float) -> Use:
    """A `share` of a use, sent in `messages` messages where the whole use would take one."""
    if share == 1.0 and use.quantities.pieces == messages:
        return use
    return Use(use.channel, Quantities(*(value * share for value in use.quantities))._replace(pieces=messages))
