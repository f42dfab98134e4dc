"""How many shards a baseline cuts a variable into: by servers, where shards stay worth a message."""

from __future__ import annotations

from collections.abc import Iterable

from autosync.baselines.decisions import Cuts
from autosync.spec import ClusterSpec, Partition, Variable

__all__ = ["MIN_SHARD_BYTES", "cuts_by_servers", "even_shards"]

MIN_SHARD_BYTES = 65_536
"""Bytes of a shard that is worth cutting: a smaller one takes as long to ask for as to send, 50 us at 10 Gbit/s."""


def even_shards(variable: Variable, servers: int) -> int:
    """One shard a server along axis 0, but none under `MIN_SHARD_BYTES` or a row; 1 leaves the variable whole."""
    rows = variable.shape[0] if variable.shape else 1
    return max(1, min(servers, rows, variable.bytes // MIN_SHARD_BYTES))


def cuts_by_servers(variables: Iterable[Variable], cluster: ClusterSpec) -> Cuts:
    """`even_shards` along axis 0 for each variable that is worth cutting."""
    counts = {variable.name: even_shards(variable, len(cluster.server_devices)) for variable in variables}
    return {name: Partition(0, count) for name, count in counts.items() if count > 1}
