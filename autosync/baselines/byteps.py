"""BytePS-like: everything in 4 MB parts over all servers.

The source is Jiang et al., "A Unified Architecture for Accelerating Distributed DNN Training in Heterogeneous GPU/CPU
Clusters", OSDI 2020: tensors are cut into parts of `BYTEPS_PARTITION_BYTES` = 4 096 000 bytes, spread over all servers,
and moved between machines once a machine. The original cuts the flat tensor and hashes parts to servers; here parts are
whole rows (of the longest axis, where axis 0 is too short) and go to the server with the least bytes. The copy a
machine keeps for its replicas is a local copy.
"""

from __future__ import annotations

from autosync.baselines.balance import balanced_by_bytes
from autosync.baselines.decisions import strategy_of, variables_in_ready_order
from autosync.spec import ClusterSpec, ModelSpec, Partition, Strategy, Variable

__all__ = ["byteps"]

PART_BYTES = 4_096_000


def byteps(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable in parts of about 4 MB, in ready order, each on the server with the least bytes."""
    cuts = {variable.name: cut for variable in model.variables if (cut := _cut(variable)) is not None}
    ordered = variables_in_ready_order(model)
    shards = balanced_by_bytes(ordered, cluster, cuts, local_copy=_nodes_share_copies(cluster))
    return strategy_of(model, cluster, shards, cuts)


def _cut(variable: Variable) -> Partition | None:
    parts = -(-variable.bytes // PART_BYTES)
    if parts == 1:
        return None
    axis = 0
    if not variable.sparse and variable.shape[0] < parts:
        axis = variable.shape.index(max(variable.shape))
    shards = min(parts, variable.shape[axis])
    return Partition(axis, shards) if shards > 1 else None


def _nodes_share_copies(cluster: ClusterSpec) -> bool:
    """Whether there are other nodes to fetch from, and some node has several replicas to share what it fetched."""
    nodes = [device.node for device in cluster.replica_devices]
    return len(cluster.nodes) > 1 and len(set(nodes)) < len(nodes)
