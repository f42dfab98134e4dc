"""Decisions of one strategy as channel uses at phases of the backward pass, with or without compression."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from autosync.cost.channel_uses import Use, uses_of
from autosync.cost.closed_form.tables import CostTables
from autosync.layout.channels import Channel
from autosync.layout.exchange import Quantities
from autosync.layout.fusion import Layout, pieces_of
from autosync.layout.shards import Shard
from autosync.spec import VariableStrategy


@dataclass
class Entries:
    """The channel uses of decisions; entry i of `phases`, `channels`, `quantities` and `shards` is the i-th use."""

    numbers: dict[Channel, int]
    """The numbers of channels, shared by all strategies of a batch."""

    phases: list[int] = field(default_factory=list)
    """The phase at which each use begins."""

    channels: list[int] = field(default_factory=list)
    """The number of each use's channel."""

    quantities: list[Quantities] = field(default_factory=list)

    shards: list[int] = field(default_factory=list)
    """The number of shards that each use adds to its channel's count."""

    bucket_bytes: list[float] = field(default_factory=list)
    """Bytes of each bucket."""

    chains: list[tuple[int, float, float]] = field(default_factory=list)
    """For each bucket and compressed shard: the phase from which its uses follow one another, the seconds of its
    payload, and its latency."""

    def add(self, phase: int, channel: Channel, quantities: Quantities, shards: int) -> None:
        """Add a use. `shards` are counted only if the use carries their gradients."""
        self.phases.append(phase)
        self.channels.append(self.numbers.setdefault(channel, len(self.numbers)))
        self.quantities.append(quantities)
        self.shards.append(shards if quantities.gradient_bytes else 0)

    def add_chain(self, tables: CostTables, phase: int, uses: Sequence[Use], shards: int = 1) -> None:
        """Add uses that follow one another."""
        seconds = latency = 0.0
        for channel, quantities in uses:
            self.add(phase, channel, quantities, shards)
            loads = tables.exchange_loads(channel)
            seconds += loads.seconds_a_byte * quantities.payload_bytes
            latency += loads.latency_seconds
        self.chains.append((phase, seconds, latency))


def entries_of(tables: CostTables, decisions: Sequence[VariableStrategy], numbers: dict[Channel, int]) -> Entries:
    """The entries of a strategy's decisions: all, or a subset that shares no bucket or parcel with the rest.

    Raises `KeyError`, `IndexError` or `ValueError` if the decisions do not fit.
    """
    entries, replicas = Entries(numbers), len(tables.replicas)
    layout = Layout.from_decisions(tables.slices, decisions)
    for shard in layout.alone:
        phase = tables.phases[shard.variable.name]
        if shard.synchronizer.compressor is None:
            entries.add(phase, shard.channel, shard.slice.weighs, 1)
        else:
            entries.add_chain(tables, phase, uses_of([shard], replicas))
    for parcel in layout.parcels:
        _add_parcel(entries, tables, parcel)
    for bucket in layout.buckets:
        phase = max(tables.phases[shard.variable.name] for shard in bucket)
        entries.add_chain(tables, phase, uses_of(bucket, replicas), len(bucket))
        entries.bucket_bytes.append(sum(shard.slice.weighs.payload_bytes for shard in bucket))
    return entries


def _add_parcel(entries: Entries, tables: CostTables, parcel: Sequence[Shard]) -> None:
    """Add the shards of a parcel, with an equal share of the messages for every shard."""
    phase, share = tables.phases[parcel[-1].variable.name], len(pieces_of(parcel)) / len(parcel)
    for shard in parcel:
        if shard.synchronizer.compressor is None:
            entries.add(phase, shard.channel, shard.slice.weighs._replace(pieces=share), 1)
            continue
        sent, *coding = uses_of([shard], len(tables.replicas))
        sent = Use(sent.channel, sent.quantities._replace(pieces=share))
        entries.add_chain(tables, phase, [sent, *coding])
