"""Loads of strategies on links, nodes and servers, by phase of the backward pass."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autosync.cost.closed_form.batch import Uses, uses_of_entries, uses_of_rows
from autosync.cost.closed_form.entries import Entries, entries_of
from autosync.cost.closed_form.matrices import WAYS, Matrices
from autosync.cost.closed_form.rows import ENCODED, MIXED, DecisionRows
from autosync.cost.closed_form.tables import PHASES, CostTables, cost_tables
from autosync.cost.spec_cache import remember
from autosync.errors import SpecError
from autosync.layout.apart import split_model, split_strategy
from autosync.layout.channels import Channel
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec, Strategy, VariableStrategy, check_strategy

CHUNK, MOST_LOADS = 128, 8_000_000
"""The maximum number of strategies per batch, and of loads per batch, to stay within tens of megabytes."""


@dataclass(frozen=True, eq=False)
class ChannelTotals:
    """The totals of n strategies over C channels."""

    channels: tuple[Channel, ...]

    quantities: FloatArray
    """Quantities summed by ready phase, float64 (n, PHASES, C, 8)."""

    shards: npt.NDArray[np.int64]
    """Shards per channel, (n, C)."""

    present: npt.NDArray[np.bool_]
    """Whether each channel is used, (n, C)."""

    buckets: npt.NDArray[np.int64]
    """The number of buckets, (n,)."""

    largest_bucket_bytes: FloatArray
    """Bytes of the largest bucket, (n,)."""

    chain_seconds: FloatArray
    """The longest payload time among the buckets and compressed shards that become ready in each phase, (n, PHASES)."""

    chain_latency_seconds: FloatArray
    """The longest latency of a bucket or compressed shard, (n,)."""


@dataclass(frozen=True, eq=False)
class ColumnLoads:
    """The loads of n strategies on the tables' columns: bytes, messages, bytes of work."""

    tables: CostTables

    matrices: Matrices
    """The matrices that convert `by_phase` to loads: `push` of gradients, `back` of values sent back after the update,
    `pull` of values before the forward pass."""

    by_phase: FloatArray
    """The quantities used in each phase *or later*, so that phase 0 holds all, float64 (PHASES, n, r)."""

    latency_seconds: FloatArray
    """The longest latency of a chain, (n,)."""

    chain_seconds: FloatArray
    """As in `ChannelTotals`, (n, PHASES)."""

    overlaps: npt.NDArray[np.bool_]
    """Whether gradients travel during the next forward pass, too, (n,)."""

    def total(self, columns: slice) -> FloatArray:
        """The loads of pull, push and sending back together, (n, those columns)."""
        return self._total[:, columns]

    @cached_property
    def _total(self) -> FloatArray:
        return self.matrices.times(self.by_phase[0], WAYS)


def loads_by_replicas(
    model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
) -> Iterator[tuple[npt.NDArray[np.intp], ChannelTotals, ColumnLoads]]:
    """Strategies in groups with equal replicas and rows apart, of bounded size: positions, channel totals, loads.

    Raises `SpecError` if a strategy does not fit the model and the cluster.
    """
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for position, strategy in enumerate(strategies):
        groups.setdefault((strategy.replicas, strategy.rows_apart), []).append(position)
    for (replicas, rows_apart), positions in groups.items():
        _check_replicas(model, cluster, strategies[positions[0]])
        split = split_model(model, rows_apart) if rows_apart else model
        tables = cost_tables(split, cluster, replicas)
        chunk = max(1, min(CHUNK, MOST_LOADS // (PHASES * tables.columns.count)))
        for begin in range(0, len(positions), chunk):
            chosen = positions[begin : begin + chunk]
            totals = _channel_totals(tables, split, [split_strategy(strategies[position]) for position in chosen])
            overlaps = np.array([strategies[position].overlap_next_forward for position in chosen], dtype=np.bool_)
            yield np.array(chosen, dtype=np.intp), totals, channel_loads(tables, totals, overlaps)


def channel_loads(tables: CostTables, totals: ChannelTotals, overlaps: npt.NDArray[np.bool_]) -> ColumnLoads:
    """The loads of the used channels on the columns, for strategies that `overlaps` with the next forward pass (n,)."""
    count = len(totals.quantities)
    matrices = tables.matrices(totals.channels)
    latency = np.where(totals.present, matrices.latency_seconds, 0.0).max(axis=1)
    # Quantities that load nothing are dropped before the sum over phases.
    flat = totals.quantities.transpose(1, 0, 2, 3).reshape(PHASES * count, -1)
    by_phase = np.take(flat, matrices.rows, axis=1).reshape(PHASES, count, -1)
    for phase in reversed(range(PHASES - 1)):
        by_phase[phase] += by_phase[phase + 1]
    latency = np.maximum(latency, totals.chain_latency_seconds)
    return ColumnLoads(tables, matrices, by_phase, latency, totals.chain_seconds, overlaps)


def _check_replicas(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> None:
    if not set(strategy.replicas) <= {str(device) for device in cluster.replica_devices}:
        check_strategy(strategy, model, cluster)


def _channel_totals(tables: CostTables, model: ModelSpec, strategies: Sequence[Strategy]) -> ChannelTotals:
    channels, uses = _uses(tables, model, strategies)
    numbers, channel = np.unique(uses.channel, return_inverse=True)
    count, width = len(strategies), len(numbers)
    place = uses.owner * width + channel
    cells = (uses.phase * count + uses.owner) * width + channel
    kinds = uses.quantities.shape[1]
    flat = (cells[:, None] * kinds + np.arange(kinds)).ravel()
    quantities = np.bincount(flat, uses.quantities.ravel(), count * PHASES * width * kinds)
    chain_seconds, largest, latency = np.zeros((count, PHASES)), np.zeros(count), np.zeros(count)
    np.maximum.at(chain_seconds, (uses.chain_owner, uses.chain_phase), uses.chain_seconds)
    np.maximum.at(latency, uses.chain_owner, uses.chain_latency)
    np.maximum.at(largest, uses.bucket_owner, uses.bucket_bytes)
    return ChannelTotals(
        tuple(channels[number] for number in numbers),
        quantities.reshape(PHASES, count, width, kinds).transpose(1, 0, 2, 3),
        np.bincount(place, uses.shards, count * width).reshape(count, width).astype(np.int64),
        np.bincount(place, minlength=count * width).reshape(count, width) > 0,
        buckets=np.bincount(uses.bucket_owner, minlength=count),
        largest_bucket_bytes=largest,
        chain_seconds=chain_seconds,
        chain_latency_seconds=latency,
    )


def _uses(tables: CostTables, model: ModelSpec, strategies: Sequence[Strategy]) -> tuple[list[Channel], Uses]:
    """The channels by their numbers, and the uses of all strategies.

    Decisions that encode gradients are processed one by one. They share no bucket or parcel with other decisions,
    because a bucket or parcel is encoded as a whole. A strategy is processed as a whole if one of its decisions encodes
    only some of its shards. If a strategy does not fit, all strategies are processed one by one, to find the misfit.
    """
    decisions, whole = _decision_rows(tables), np.ones(len(strategies), dtype=np.bool_)
    try:
        numbers = decisions.numbers_of(strategies)
        whole = (numbers == MIXED).any(axis=1)
    except (KeyError, IndexError, ValueError):
        numbers = np.zeros((len(strategies), 0), dtype=np.intp)
    channels = {channel: number for number, channel in enumerate(decisions.channels)}
    fast = np.flatnonzero(~whole)
    chosen = {place: strategies[place].variables for place in np.flatnonzero(whole).tolist()}
    for place in np.flatnonzero(~whole & (numbers == ENCODED).any(axis=1)).tolist():
        variables = strategies[place].variables
        chosen[place] = tuple(variables[at] for at in np.flatnonzero(numbers[place] == ENCODED).tolist())
    entries = [_entries(tables, model, strategies[place], of_place, channels) for place, of_place in chosen.items()]
    parts = [uses_of_entries(entries, list(chosen))] if chosen else []
    if len(fast):
        owners, places = decisions.rows_of(numbers[fast])
        if len(owners):
            parts.append(uses_of_rows(tables, decisions.channels, decisions.table, fast[owners], places))
    return list(channels), Uses.join(parts)


@remember(32)
def _decision_rows(tables: CostTables) -> DecisionRows:
    """The decisions of the tables as rows, cached for recent tables."""
    return DecisionRows(tables)


def _entries(
    tables: CostTables,
    model: ModelSpec,
    strategy: Strategy,
    decisions: Sequence[VariableStrategy],
    numbers: dict[Channel, int],
) -> Entries:
    known = len(numbers)
    try:
        if len(strategy.variables) != len(tables.phases):
            raise ValueError("the strategy does not decide every variable exactly once")
        entries = entries_of(tables, decisions, numbers)
        for channel in list(numbers)[known:]:
            tables.exchange_loads(channel)
    except (KeyError, IndexError, ValueError) as error:
        check_strategy(strategy, model, tables.cluster)
        raise SpecError(f"Strategy {strategy.digest} cannot be costed: {error!r}; report it as a bug.") from error
    return entries
