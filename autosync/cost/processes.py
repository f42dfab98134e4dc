"""Which devices share a process, and so exchange tensors without a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosync.spec import ClusterSpec

__all__ = ["Processes"]


@dataclass(frozen=True)
class Processes:
    """A node's `cpu:k` is its k-th worker process; a node's GPUs belong to its only one."""

    node_of: Mapping[str, str]
    process_of: Mapping[str, tuple[str, int]]
    gateway_of: Mapping[str, str]

    @classmethod
    def of_cluster(cls, cluster: ClusterSpec) -> Processes:
        nodes, processes, gateways = {}, {}, {}
        for node in cluster.nodes:
            gateways[node.name] = str(node.cpu_devices[0])
            for device in (*node.cpu_devices, *node.gpu_devices):
                nodes[str(device)] = node.name
                processes[str(device)] = (node.name, device.index if device.kind == "cpu" else 0)
        return cls(nodes, processes, gateways)

    def apart(self, source: str, target: str) -> bool:
        """Whether a tensor must be sent from `source` to `target`."""
        return self.process_of[source] != self.process_of[target]
