"""What strategies load onto links, nodes and servers, and from which point of the backward pass on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.cost.channels import Channel
from autosync.cost.entries import Entries, entries_of
from autosync.cost.exchange import Quantities
from autosync.cost.tables import PHASES, CostTables, Matrices, cost_tables
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, ModelSpec, Strategy, check_strategy

__all__ = ["Loads", "Used", "channel_loads", "loads_by_replicas"]

CHUNK = 128
"""Strategies worked on at once: what they take stays within tens of megabytes."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Used:
    """What n strategies use of C `channels`: `quantities` float64 (n, PHASES, C, 7) are summed by ready phase.

    `shards` int64 (n, C) counts shards a channel, `present` bool (n, C) says which channels are used; `buckets` int64
    (n,), `largest_bucket_bytes` float64 (n,). Of buckets and compressed shards, `chain_seconds` float64 (n, PHASES) is
    how long the payload of the slowest takes that becomes ready there, `chain_latency_seconds` float64 (n,) the longest
    latency.
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
    """Loads of n strategies, in the tables' columns (bytes, messages, bytes worked on).

    `pull` float64 (n, columns) is moved before the forward pass; `push` float64 (n, PHASES, columns) has what is
    pushed at each phase *or later*, so that phase 0 holds all, and `back` what is then sent back. `latency_seconds`
    float64 (n,) is the longest chain's, `chain_seconds` float64 (n, PHASES) as in `Used`.
    """

    tables: CostTables
    pull: FloatArray
    push: FloatArray
    back: FloatArray
    latency_seconds: FloatArray
    chain_seconds: FloatArray

    def total(self, columns: slice) -> FloatArray:
        """Pulled, pushed and sent back together, (n, those columns)."""
        return self.pull[:, columns] + self.push[:, 0, columns] + self.back[:, 0, columns]


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
        for begin in range(0, len(positions), CHUNK):
            chosen = positions[begin : begin + CHUNK]
            if begin == 0:
                _check_replicas(model, cluster, strategies[chosen[0]])
            tables = cost_tables(model, cluster, replicas)
            used = _used(tables, model, [strategies[position] for position in chosen])
            yield np.array(chosen, dtype=np.intp), used, channel_loads(tables, used)


def channel_loads(tables: CostTables, used: Used) -> Loads:
    """What the used channels load onto the columns."""
    count = len(used.quantities)
    matrices: Matrices = tables.matrices(used.channels)
    flat = used.quantities.reshape(count, PHASES, -1)
    latency = np.where(used.present, matrices.latency_seconds, 0.0).max(axis=1)
    return Loads(
        tables,
        pull=(flat.sum(axis=1, keepdims=True) @ matrices.pull)[:, 0],
        push=_from_each_phase_on(flat @ matrices.push),
        back=_from_each_phase_on(flat @ matrices.back),
        latency_seconds=np.maximum(latency, used.chain_latency_seconds),
        chain_seconds=used.chain_seconds,
    )


def _from_each_phase_on(by_phase: FloatArray) -> FloatArray:
    return np.asarray(np.cumsum(by_phase[:, ::-1], axis=1)[:, ::-1])


def _check_replicas(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> None:
    if not set(strategy.replicas) <= {str(device) for device in cluster.replica_devices}:
        check_strategy(strategy, model, cluster)


def _used(tables: CostTables, model: ModelSpec, strategies: Sequence[Strategy]) -> Used:
    numbers: dict[Channel, int] = {}
    entries = [_entries(tables, model, strategy, numbers) for strategy in strategies]
    count, width = len(entries), len(numbers)
    quantities = np.zeros((count, PHASES * width, len(Quantities._fields)))
    shards, present = np.zeros((count, width), dtype=np.int64), np.zeros((count, width), dtype=np.bool_)
    for number, each in enumerate(entries):
        cells = np.array(each.phases) * width + np.array(each.channels)
        np.add.at(quantities[number], cells, np.array(each.quantities))
        for channel, counted in each.shards.items():
            shards[number, channel], present[number, channel] = counted, True
    return Used(
        tuple(numbers),
        quantities.reshape(count, PHASES, width, -1),
        shards,
        present,
        buckets=np.array([len(each.bucket_bytes) for each in entries], dtype=np.int64),
        largest_bucket_bytes=np.array([max(each.bucket_bytes, default=0.0) for each in entries]),
        chain_seconds=_chain_seconds(entries),
        chain_latency_seconds=np.array([max((last for _, _, last in each.chains), default=0.0) for each in entries]),
    )


def _entries(tables: CostTables, model: ModelSpec, strategy: Strategy, numbers: dict[Channel, int]) -> Entries:
    known = len(numbers)
    try:
        found = entries_of(tables, strategy, numbers)
        for channel in list(numbers)[known:]:
            tables.projected(channel)
    except (KeyError, IndexError, ValueError) as error:
        check_strategy(strategy, model, tables.cluster)
        raise SpecError(f"Strategy {strategy.digest} cannot be costed: {error!r}; report it as a bug.") from error
    return found


def _chain_seconds(entries: Sequence[Entries]) -> FloatArray:
    seconds = np.zeros((len(entries), PHASES))
    for row, each in zip(seconds, entries, strict=True):
        for phase, chain, _ in each.chains:
            row[phase] = max(row[phase], chain)
    return seconds
