"""Devices that share memory, and so exchange tensors without crossing a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosync.spec import ClusterSpec

__all__ = ["Processes"]


@dataclass(frozen=True)
class Processes:
    """A node's `cpu:k` is its k-th worker process; a node's GPUs belong to its only one."""

    node_of: Mapping[str, str]
    gateway_of: Mapping[str, str]
    _host_of: Mapping[str, str]

    @classmethod
    def of_cluster(cls, cluster: ClusterSpec) -> Processes:
        nodes, gateways, hosts = {}, {}, {}
        for node in cluster.nodes:
            gateways[node.name] = str(node.cpu_devices[0])
            for device in (*node.cpu_devices, *node.gpu_devices):
                nodes[str(device)] = node.name
                hosts[str(device)] = str(device) if device.kind == "cpu" else gateways[node.name]
        return cls(nodes, gateways, hosts)

    def apart(self, source: str, target: str) -> bool:
        """Whether a tensor crosses a link from `source` to `target`.

        A GPU and the CPU of its process count as one place; two GPUs do not, and cross their node's loopback.
        """
        return source != target and self._host_of[source] != target and self._host_of[target] != source
