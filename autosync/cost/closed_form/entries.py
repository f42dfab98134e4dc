"""Decisions of one strategy as uses of channels at points of the backward pass, however gradients are encoded."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from autosync.cost.closed_form.tables import CostTables
from autosync.cost.sending import Use, uses_of
from autosync.layout.channels import Channel
from autosync.layout.exchange import Quantities
from autosync.layout.shards import Shard
from autosync.layout.together import Layout, pieces_of
from autosync.spec import VariableStrategy


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

    def add(self, phase: int, channel: Channel, quantities: Quantities, shards: int) -> None:
        """Add a use; so many shards are counted where their gradients go."""
        self.phases.append(phase)
        self.channels.append(self.numbers.setdefault(channel, len(self.numbers)))
        self.quantities.append(quantities)
        self.shards.append(shards if quantities.gradient_bytes else 0)

    def add_chain(self, tables: CostTables, phase: int, uses: Sequence[Use], shards: int = 1) -> None:
        """Add uses that follow one another."""
        seconds = latency = 0.0
        for channel, quantities in uses:
            self.add(phase, channel, quantities, shards)
            projected = tables.projected(channel)
            seconds += projected.seconds_a_byte * quantities.payload_bytes
            latency += projected.latency_seconds
        self.chains.append((phase, seconds, latency))


def entries_of(tables: CostTables, decisions: Sequence[VariableStrategy], numbers: dict[Channel, int]) -> Entries:
    """The entries of a strategy's decisions: of all, or of some that share no bucket or parcel with the others.

    Raises `KeyError`, `IndexError` or `ValueError` when they do not fit.
    """
    entries, replicas = Entries(numbers), len(tables.replicas)
    layout = Layout.made(tables.slices, decisions)
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
    """Add the shards of a parcel, each with its share of the messages."""
    phase, share = tables.phases[parcel[-1].variable.name], len(pieces_of(parcel)) / len(parcel)
    for shard in parcel:
        if shard.synchronizer.compressor is None:
            entries.add(phase, shard.channel, shard.slice.weighs._replace(pieces=share), 1)
            continue
        used, *coding = uses_of([shard], len(tables.replicas))
        used = Use(used.channel, used.quantities._replace(pieces=share))
        entries.add_chain(tables, phase, [used, *coding])
