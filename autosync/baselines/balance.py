"""Greedy placement: each shard in turn goes to the server that holds the least bytes so far."""

from __future__ import annotations

from collections.abc import Iterable

from autosync.baselines.decisions import Cuts, shard_bytes
from autosync.spec import ClusterSpec, ParameterServer, Synchronizer, Variable

__all__ = ["balanced_by_bytes"]


def balanced_by_bytes(
    variables: Iterable[Variable], cluster: ClusterSpec, cuts: Cuts, local_copy: bool = False
) -> dict[str, list[Synchronizer]]:
    """A server for every shard of `variables`, taken in the order given; the first server wins a tie.

    A variable counts with all its bytes, sparse or not. Sparse variables never get a local copy.
    """
    loads = {str(device): 0 for device in cluster.server_devices}
    placed: dict[str, list[Synchronizer]] = {}
    for variable in variables:
        placed[variable.name] = []
        for size in shard_bytes(variable, cuts.get(variable.name)):
            device = min(loads, key=loads.__getitem__)
            loads[device] += size
            placed[variable.name].append(ParameterServer(device, local_copy and not variable.sparse))
    return placed
