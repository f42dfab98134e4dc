"""What strategies load onto links, nodes and servers, and from which point of the backward pass on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.cost.exchange import Quantities
from autosync.cost.tables import PHASES, CostTables, VariableTable, cost_tables
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, ModelSpec, ParameterServer, Strategy, check_strategy

__all__ = ["Loads", "Used", "channel_loads", "loads_by_replicas"]

CHUNK = 128
"""Strategies worked on at once: what they take stays within tens of megabytes."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Used:
    """Channels used by each of n strategies, float64 (n, PHASES, C, 4): summed `Quantities` by ready phase.

    `shards` int64 (n, C) counts shards a channel, `buckets` int64 (n,) buckets; `largest_bucket_bytes` float64 (n,).
    """

    quantities: FloatArray
    shards: npt.NDArray[np.int64]
    buckets: npt.NDArray[np.int64]
    largest_bucket_bytes: FloatArray


@dataclass(frozen=True, eq=False)
class Loads:
    """Loads of n strategies, in the tables' columns (bytes, messages, bytes worked on).

    `pull` float64 (n, columns) is moved before the forward pass; `push` float64 (n, PHASES, columns) has what is
    pushed at each phase *or later*, so that phase 0 holds all. `latency_seconds` float64 (n,) is the longest chain.
    """

    tables: CostTables
    pull: FloatArray
    push: FloatArray
    latency_seconds: FloatArray

    def pushed(self, columns: slice) -> FloatArray:
        """(n, PHASES, those columns)."""
        return self.push[:, :, columns]

    def total(self, columns: slice) -> FloatArray:
        """Pulled and pushed together, (n, those columns)."""
        return self.pull[:, columns] + self.push[:, 0, columns]


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
    flat = used.quantities.reshape(count, PHASES, -1)
    by_phase = flat @ tables.push
    present = used.shards > 0
    return Loads(
        tables,
        pull=(flat.sum(axis=1, keepdims=True) @ tables.pull)[:, 0],
        push=np.cumsum(by_phase[:, ::-1], axis=1)[:, ::-1],
        latency_seconds=np.where(present, tables.latency_seconds, 0.0).max(axis=1),
    )


def _check_replicas(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> None:
    if not set(strategy.replicas) <= {str(device) for device in cluster.replica_devices}:
        check_strategy(strategy, model, cluster)


@dataclass(frozen=True)
class _Entries:
    """One strategy's server shards, gathered shards and buckets: cells (phase * C + channel) and their quantities."""

    cells: list[int]
    quantities: list[Quantities]
    shards: list[int]
    bucket_bytes: list[float]


def _used(tables: CostTables, model: ModelSpec, strategies: Sequence[Strategy]) -> Used:
    count, channels = len(strategies), len(tables.channels)
    quantities = np.zeros((count, PHASES * channels, len(Quantities._fields)))
    entries = []
    for number, strategy in enumerate(strategies):
        try:
            found = _entries(tables, strategy)
        except (KeyError, IndexError, ValueError) as error:
            check_strategy(strategy, model, tables.cluster)
            raise SpecError(f"Strategy {strategy.digest} cannot be costed: {error!r}; report it as a bug.") from error
        np.add.at(quantities[number], found.cells, np.array(found.quantities))
        entries.append(found)
    return Used(
        quantities.reshape(count, PHASES, channels, -1),
        shards=np.array([each.shards for each in entries], dtype=np.int64),
        buckets=np.array([len(each.bucket_bytes) for each in entries], dtype=np.int64),
        largest_bucket_bytes=np.array([max(each.bucket_bytes, default=0.0) for each in entries]),
    )


def _entries(tables: CostTables, strategy: Strategy) -> _Entries:
    """Every shard is looked at once; this loop is where predicting spends its time."""
    if len(strategy.variables) != len(tables.variables):
        raise ValueError("it does not decide every variable once")
    channels, variables = tables.channels, tables.variables
    width, ring, gather = len(channels), channels["ring", "", False], channels["gathered_rows", "", False]
    cells: list[int] = []
    weights: list[Quantities] = []
    counts = [0] * width
    buckets: dict[int, _Bucket] = {}
    for each in strategy.variables:
        table = variables[each.variable]
        sparse = table.variable.sparse
        kind = "sparse_server" if sparse else "dense_server"
        for shard, quantities in zip(each.shards, table.shards(each.partition), strict=True):
            if isinstance(shard, ParameterServer):
                channel = channels[kind, shard.device, shard.local_copy and not sparse]
            elif sparse:
                channel = gather
            else:
                counts[ring] += 1
                bucket = buckets.get(shard.group)
                if bucket is None:
                    bucket = buckets[shard.group] = _Bucket()
                bucket.add(quantities.payload_bytes, table)
                continue
            counts[channel] += 1
            cells.append(table.phase * width + channel)
            weights.append(quantities)
    for bucket in buckets.values():
        cells.append(bucket.phase * width + ring)
        weights.append(bucket.quantities(len(tables.replicas)))
    return _Entries(cells, weights, counts, [bucket.payload_bytes for bucket in buckets.values()])


@dataclass
class _Bucket:
    """A bucket being filled; it is ready when its last gradient is."""

    payload_bytes: float = 0.0
    elements: float = 0.0
    phase: int = 0

    def add(self, payload_bytes: float, table: VariableTable) -> None:
        self.payload_bytes += payload_bytes
        self.elements += payload_bytes * table.elements_a_byte
        if table.phase > self.phase:
            self.phase = table.phase

    def quantities(self, replicas: int) -> Quantities:
        return Quantities(self.payload_bytes, 0.0, self.payload_bytes, min(1.0, self.elements / replicas))
