"""The cluster that a strategy's devices imply: its nodes, with assumed figures for all that is not known."""

from __future__ import annotations

from collections import Counter

from autosync.spec import ClusterSpec, Device, Node, ParameterServer, Strategy
from trials.cluster.racks import ASSUMED_UPLINK, Attached, joined

__all__ = ["ASSUMED_CORES", "implied_cluster"]

ASSUMED_CORES = 4.0


def implied_cluster(strategy: Strategy) -> ClusterSpec:
    """The cluster of the fewest nodes, workers and GPUs for all devices. Raises `SpecError` for no device's name."""
    names = [*strategy.replicas, *_servers(strategy)]
    devices = [Device.parse(name) for name in names]
    nodes = dict.fromkeys(device.node for device in devices)
    gpus, workers = _counts(devices, "gpu"), _counts(devices, "cpu")
    return joined(
        [Attached(Node(node, "", ASSUMED_CORES, max(1, workers[node]), gpus[node]), ASSUMED_UPLINK) for node in nodes],
        {},
    )


def _servers(strategy: Strategy) -> list[str]:
    return [shard.device for _, _, shard in strategy.shards() if isinstance(shard, ParameterServer)]


def _counts(devices: list[Device], kind: str) -> Counter[str]:
    """The highest index of a kind on each node, plus one."""
    counts: Counter[str] = Counter()
    for device in devices:
        if device.kind == kind:
            counts[device.node] = max(counts[device.node], device.index + 1)
    return counts
