"""What a step keeps busy: links, each node's cores, servers, and processors that nodes share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autosync.spec import ClusterSpec

__all__ = ["Resources"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Resources:
    """Where each resource of a cluster has its column: links, nodes' cores, servers, then the shared processors.

    A server's column is the one thread that adds and updates there; the same work also counts for its node's cores.
    """

    cluster: ClusterSpec

    @cached_property
    def links(self) -> slice:
        return slice(0, len(self.cluster.links))

    @cached_property
    def nodes(self) -> slice:
        return slice(self.links.stop, self.links.stop + len(self.cluster.nodes))

    @cached_property
    def servers(self) -> slice:
        return slice(self.nodes.stop, self.nodes.stop + len(self.cluster.server_devices))

    @property
    def shared(self) -> int:
        return int(self.servers.stop)

    @property
    def count(self) -> int:
        return self.shared + 1

    @cached_property
    def link_column(self) -> dict[int, int]:
        """By the identity of a link of the cluster."""
        return {id(link): number for number, link in enumerate(self.cluster.links)}

    @cached_property
    def node_column(self) -> dict[str, int]:
        return {node.name: self.nodes.start + number for number, node in enumerate(self.cluster.nodes)}

    @cached_property
    def server_column(self) -> dict[str, int]:
        return {str(each): self.servers.start + number for number, each in enumerate(self.cluster.server_devices)}

    @cached_property
    def node_of(self) -> dict[str, str]:
        """The node of every device."""
        return {
            str(device): node.name for node in self.cluster.nodes for device in (*node.cpu_devices, *node.gpu_devices)
        }

    @cached_property
    def bytes_per_second(self) -> FloatArray:
        """Of the links."""
        return np.array([link.bytes_per_second for link in self.cluster.links])

    @cached_property
    def cores(self) -> FloatArray:
        """Of the nodes."""
        return np.array([node.cores for node in self.cluster.nodes])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each column is, in words."""
        links = (f"link {link.source} > {link.target}" for link in self.cluster.links)
        nodes = (f"cores of {node.name}" for node in self.cluster.nodes)
        servers = (f"server {device}" for device in self.cluster.server_devices)
        return (*links, *nodes, *servers, "shared processors")

    def add_shared(self, busy: FloatArray, shared_cores: float) -> None:
        """Fill in the shared processors' column of `busy` (..., columns), in seconds, from the nodes' columns."""
        core_seconds = busy[..., self.nodes] @ self.cores
        busy[..., self.shared] = shared_cores * core_seconds / self.cores.max()
