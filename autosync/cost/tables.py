"""All that can be worked out before a strategy is known: tables of one model on one cluster with its replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost.exchange import Exchange, Quantities
from autosync.cost.gathered_rows import gathered_rows_exchange
from autosync.cost.parameter_server import dense_server_exchange, sparse_server_exchange
from autosync.cost.processes import Processes
from autosync.cost.projection import Columns, Projection
from autosync.cost.readiness import ready_fractions
from autosync.cost.ring import ring_exchange
from autosync.spec import DTYPE_BYTES, ClusterSpec, ModelSpec, Partition, Variable, shard_sizes

__all__ = ["PHASES", "Channel", "CostTables", "VariableTable", "cost_tables"]

PHASES = 17
"""Points of the backward pass, from its start to its end, to which gradients' ready times are rounded."""

INDEX_BYTES = 8

FloatArray = npt.NDArray[np.float64]
Channel = tuple[str, str, bool]
"""A way to synchronize a shard: (kind, server or "", local copy)."""


@final
@dataclass(frozen=True)
class VariableTable:
    """A variable's phase, and the quantities of its shards under every partition met so far."""

    variable: Variable
    phase: int
    _cuts: dict[Partition | None, tuple[Quantities, ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def elements_a_byte(self) -> float:
        return 1 / DTYPE_BYTES[self.variable.dtype]

    def shards(self, cut: Partition | None) -> tuple[Quantities, ...]:
        if cut not in self._cuts:
            self._cuts[cut] = tuple(self._quantities(share) for share in self._shares(cut))
        return self._cuts[cut]

    def _shares(self, cut: Partition | None) -> list[float]:
        if cut is None:
            return [1.0]
        rows = self.variable.shape[cut.axis]
        return [size / rows for size in shard_sizes(rows, cut.shards)]

    def _quantities(self, share: float) -> Quantities:
        variable = self.variable
        held = share * variable.bytes
        if variable.rows_per_step is None:
            return Quantities(held, 0.0, held, 1.0)
        rows = share * variable.rows_per_step
        return Quantities(rows * variable.row_elements * DTYPE_BYTES[variable.dtype], rows * INDEX_BYTES, held, 1.0)


@final
@dataclass(frozen=True, eq=False)
class CostTables:
    """Matrices over channels; C channels times 4 quantities make rows, links, nodes and servers make columns.

    `pull` and `push` are float64 (4 C, columns), `latency_seconds` float64 (C,). `node_compute` float64 (nodes,) is
    each node's share of work: replicas a core, times forward flops; `gpu_flops` those of a GPU replica (0: none).
    """

    cluster: ClusterSpec
    replicas: tuple[str, ...]
    columns: Columns
    channels: Mapping[Channel, int]
    variables: Mapping[str, VariableTable]
    pull: FloatArray
    push: FloatArray
    latency_seconds: FloatArray
    node_cores: FloatArray
    node_compute: FloatArray
    gpu_flops: float
    gradient_bytes: float


@lru_cache(maxsize=32)
def cost_tables(model: ModelSpec, cluster: ClusterSpec, replicas: tuple[str, ...]) -> CostTables:
    """The tables of `model` on `cluster`, kept for the models and clusters met last."""
    exchanges = _exchanges(cluster, replicas, model.slots)
    projection = Projection(cluster)
    rows = [projection.rows(each) for each in exchanges.values()]
    fractions = ready_fractions(model)
    cores = np.array([node.cores for node in cluster.nodes])
    on_cpu = [sum(str(device) in replicas for device in node.cpu_devices) for node in cluster.nodes]
    return CostTables(
        cluster=cluster,
        replicas=replicas,
        columns=projection.columns,
        channels={channel: number for number, channel in enumerate(exchanges)},
        variables={
            variable.name: VariableTable(variable, round(fractions[variable.name] * (PHASES - 1)))
            for variable in model.variables
        },
        pull=np.concatenate([pull for pull, _ in rows]),
        push=np.concatenate([push for _, push in rows]),
        latency_seconds=np.array([_latency_seconds(projection, each) for each in exchanges.values()]),
        node_cores=cores,
        node_compute=model.flops * np.array(on_cpu, dtype=np.float64) / cores,
        gpu_flops=model.flops if sum(on_cpu) < len(replicas) else 0.0,
        gradient_bytes=model.gradient_bytes,
    )


def _exchanges(cluster: ClusterSpec, replicas: tuple[str, ...], slots: int) -> dict[Channel, Exchange]:
    """Every channel a strategy can use; a new synchronizer joins here."""
    processes = Processes.of_cluster(cluster)
    exchanges: dict[Channel, Exchange] = {
        ("ring", "", False): ring_exchange(replicas, processes, slots),
        ("gathered_rows", "", False): gathered_rows_exchange(replicas, processes, slots),
    }
    for server in map(str, cluster.server_devices):
        for local_copy in (False, True):
            exchange = dense_server_exchange(server, local_copy, replicas, processes, slots)
            exchanges["dense_server", server, local_copy] = exchange
        exchanges["sparse_server", server, False] = sparse_server_exchange(server, replicas, processes, slots)
    return exchanges


def _latency_seconds(projection: Projection, exchange: Exchange) -> float:
    pull = projection.latency_seconds(exchange.pull, exchange.pull_rounds)
    return pull + projection.latency_seconds(exchange.push, exchange.push_rounds)
