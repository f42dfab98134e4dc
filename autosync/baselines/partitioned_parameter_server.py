"""Partitioned parameter servers: big variables cut over all servers.

This is AutoDist's `PartitionedPS` builder, with another count of shards. The original cuts axis 0 into its smallest
divisor of at least 2, whatever the size: 30 522 rows into 2 shards however many servers there are, and a prime 138 493
rows into 138 493. Here a variable is cut into a shard a server, uneven if need be, where these are worth a message.
"""

from __future__ import annotations

from autosync.baselines.balance import balanced_by_bytes
from autosync.baselines.cutting import cuts_by_servers
from autosync.baselines.decisions import strategy_of
from autosync.spec import ClusterSpec, ModelSpec, Strategy

__all__ = ["partitioned_parameter_server"]


def partitioned_parameter_server(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Big variables cut along axis 0 by servers; each shard, in graph order, on the server with the least bytes."""
    cuts = cuts_by_servers(model.variables, cluster)
    return strategy_of(model, cluster, balanced_by_bytes(model.variables, cluster, cuts), cuts)
