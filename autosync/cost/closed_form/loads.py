"""What strategies load onto links, nodes and servers, and from which point of the backward pass on."""

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
from autosync.cost.remembered import remembered
from autosync.errors import SpecError
from autosync.layout.channels import Channel
from autosync.spec import ClusterSpec, ModelSpec, Strategy, VariableStrategy, check_strategy

CHUNK, MOST_LOADS = 128, 8_000_000
"""The most strategies worked on at once, and the most loads of all of them: it stays within tens of megabytes."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Used:
    """What n strategies use of C `channels`: `quantities` float64 (n, PHASES, C, 7) are summed by ready phase.

    `shards` int64 (n, C) counts shards a channel, `present` bool (n, C) says which channels are used; `buckets` int64
    (n,) counts buckets, `largest_bucket_bytes` float64 (n,). Of buckets and compressed shards, `chain_seconds` float64
    (n, PHASES) is how long the payload of the slowest takes that becomes ready there, `chain_latency_seconds` float64
    (n,) the longest latency.
    """

    channels: tuple[Channel, ...]
    quantities: FloatArray
    shards: npt.NDArray[np.int64]
    present: npt.NDArray[np.bool_]
    buckets: npt.NDArray[np.int64]
    largest_bucket_bytes: FloatArray
    chain_seconds: FloatArray
    chain_latency_seconds: FloatArray


@dataclass(frozen=True, eq=False)
class Loads:
    """What n strategies load onto the tables' columns: bytes, messages, bytes worked on.

    `by_phase` float64 (PHASES, n, r) has the quantities used at each phase *or later*, so that phase 0 holds all; times
    `matrices.push` they are what is pushed, times `matrices.back` what is then sent back, times `matrices.pull` what
    has been pulled before the forward pass. `latency_seconds` float64 (n,) is the longest chain's, `chain_seconds`
    float64 (n, PHASES) as in `Used`.
    """

    tables: CostTables
    matrices: Matrices
    by_phase: FloatArray
    latency_seconds: FloatArray
    chain_seconds: FloatArray

    def total(self, columns: slice) -> FloatArray:
        """What is pulled, pushed and sent back together, (n, those columns)."""
        return self._total[:, columns]

    @cached_property
    def _total(self) -> FloatArray:
        return self.matrices.times(self.by_phase[0], WAYS)


def loads_by_replicas(
    model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
) -> Iterator[tuple[npt.NDArray[np.intp], Used, Loads]]:
    """Strategies in groups with equal replicas and of bounded size: positions, what they use, what that loads.

    Raises `SpecError` when a strategy does not fit the model and the cluster.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for position, strategy in enumerate(strategies):
        groups.setdefault(strategy.replicas, []).append(position)
    for replicas, positions in groups.items():
        _check_replicas(model, cluster, strategies[positions[0]])
        tables = cost_tables(model, cluster, replicas)
        chunk = max(1, min(CHUNK, MOST_LOADS // (PHASES * tables.columns.count)))
        for begin in range(0, len(positions), chunk):
            chosen = positions[begin : begin + chunk]
            used = _used(tables, model, [strategies[position] for position in chosen])
            yield np.array(chosen, dtype=np.intp), used, channel_loads(tables, used)


def channel_loads(tables: CostTables, used: Used) -> Loads:
    """What the used channels load onto the columns."""
    count = len(used.quantities)
    matrices = tables.matrices(used.channels)
    latency = np.where(used.present, matrices.latency_seconds, 0.0).max(axis=1)
    # What loads nothing is left away before it is added up.
    flat = used.quantities.transpose(1, 0, 2, 3).reshape(PHASES * count, -1)
    by_phase = np.take(flat, matrices.rows, axis=1).reshape(PHASES, count, -1)
    for phase in reversed(range(PHASES - 1)):
        by_phase[phase] += by_phase[phase + 1]
    return Loads(tables, matrices, by_phase, np.maximum(latency, used.chain_latency_seconds), used.chain_seconds)


def _check_replicas(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> None:
    if not set(strategy.replicas) <= {str(device) for device in cluster.replica_devices}:
        check_strategy(strategy, model, cluster)


def _used(tables: CostTables, model: ModelSpec, strategies: Sequence[Strategy]) -> Used:
    channels, uses = _uses(tables, model, strategies)
    met, channel = np.unique(uses.channel, return_inverse=True)
    count, width = len(strategies), len(met)
    place = uses.owner * width + channel
    cells = (uses.phase * count + uses.owner) * width + channel
    kinds = uses.quantities.shape[1]
    each = (cells[:, None] * kinds + np.arange(kinds)).ravel()
    quantities = np.bincount(each, uses.quantities.ravel(), count * PHASES * width * kinds)
    chain_seconds, largest, latency = np.zeros((count, PHASES)), np.zeros(count), np.zeros(count)
    np.maximum.at(chain_seconds, (uses.chain_owner, uses.chain_phase), uses.chain_seconds)
    np.maximum.at(latency, uses.chain_owner, uses.chain_latency)
    np.maximum.at(largest, uses.bucket_owner, uses.bucket_bytes)
    return Used(
        tuple(channels[number] for number in met),
        quantities.reshape(PHASES, count, width, kinds).transpose(1, 0, 2, 3),
        np.bincount(place, uses.shards, count * width).reshape(count, width).astype(np.int64),
        np.bincount(place, minlength=count * width).reshape(count, width) > 0,
        buckets=np.bincount(uses.bucket_owner, minlength=count),
        largest_bucket_bytes=largest,
        chain_seconds=chain_seconds,
        chain_latency_seconds=latency,
    )


def _uses(tables: CostTables, model: ModelSpec, strategies: Sequence[Strategy]) -> tuple[list[Channel], Uses]:
    """What all strategies use, and the channels by their numbers.

    Decisions that encode gradients are gone through one by one: a bucket or parcel is encoded as a whole, so they share
    none with the others. Strategies in which one encodes some of its shards are gone through whole; so are all where
    one does not fit, to say which.
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
        decided = strategies[place].variables
        chosen[place] = tuple(decided[at] for at in np.flatnonzero(numbers[place] == ENCODED).tolist())
    entries = [_entries(tables, model, strategies[place], each, channels) for place, each in chosen.items()]
    parts = [uses_of_entries(entries, list(chosen))] if chosen else []
    if len(fast):
        owners, places = decisions.rows_of(numbers[fast])
        if len(owners):
            parts.append(uses_of_rows(tables, decisions.channels, decisions.table, fast[owners], places))
    return list(channels), Uses.joined(parts)


@remembered(32)
def _decision_rows(tables: CostTables) -> DecisionRows:
    """The decisions of the tables as rows, kept for the tables met last."""
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
            raise ValueError("it does not decide every variable once")
        found = entries_of(tables, decisions, numbers)
        for channel in list(numbers)[known:]:
            tables.projected(channel)
    except (KeyError, IndexError, ValueError) as error:
        check_strategy(strategy, model, tables.cluster)
        raise SpecError(f"Strategy {strategy.digest} cannot be costed: {error!r}; report it as a bug.") from error
    return found
