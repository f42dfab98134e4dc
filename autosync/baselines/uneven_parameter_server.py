"""Uneven partitioned parameter servers: big variables cut into a number of shards that does not divide them.

This is AutoDist's `UnevenPartitionedPS` builder: the smallest count of at least 2 that does not divide axis 0. The
original puts no bound on it and cuts every variable; here it is at most twice the servers (else a shard a server), and
only variables worth cutting are cut.
"""

from __future__ import annotations

from autosync.baselines.balance import balanced_by_bytes
from autosync.baselines.cutting import MIN_SHARD_BYTES, even_shards
from autosync.baselines.decisions import strategy_of
from autosync.spec import ClusterSpec, ModelSpec, Partition, Strategy, Variable

__all__ = ["uneven_parameter_server"]


def uneven_parameter_server(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Big variables cut unevenly along axis 0; each shard, in graph order, on the server with the least bytes."""
    counts = {variable.name: _uneven_shards(variable, len(cluster.server_devices)) for variable in model.variables}
    cuts = {name: Partition(0, count) for name, count in counts.items() if count > 1}
    return strategy_of(model, cluster, balanced_by_bytes(model.variables, cluster, cuts), cuts)


def _uneven_shards(variable: Variable, servers: int) -> int:
    rows = variable.shape[0] if variable.shape else 1
    most = min(2 * servers, rows, variable.bytes // MIN_SHARD_BYTES)
    return next((count for count in range(2, most + 1) if rows % count), even_shards(variable, servers))
