"""What a step keeps busy: links, each node's cores, servers, and the cores of machines that nodes share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autosync.spec import ClusterSpec, SharedCores

__all__ = ["Resources"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Resources:
    """The column of each resource of a cluster: links, nodes' cores, servers, then shared machines' cores.

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

    @cached_property
    def shared(self) -> slice:
        return slice(self.servers.stop, self.servers.stop + len(self.machines))

    @property
    def count(self) -> int:
        return int(self.shared.stop)

    @cached_property
    def machines(self) -> dict[SharedCores, FloatArray]:
        """Real machines that nodes share, and which nodes do: 1 or 0 (nodes,)."""
        shared = [node.shared_cores for node in self.cluster.nodes]
        return {
            machine: np.array([float(machine == each) for each in shared])
            for machine in dict.fromkeys(shared)
            if machine is not None
        }

    @cached_property
    def link_column(self) -> dict[int, int]:
        """The column of each link of the cluster, by the link's identity."""
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
        """Bytes a second of the links."""
        return np.array([link.bytes_per_second for link in self.cluster.links])

    @cached_property
    def cores(self) -> FloatArray:
        """Cores of the nodes."""
        return np.array([node.cores for node in self.cluster.nodes])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each column is, in words."""
        links = (f"link {link.source} > {link.target}" for link in self.cluster.links)
        nodes = (f"cores of {node.name}" for node in self.cluster.nodes)
        servers = (f"server {device}" for device in self.cluster.server_devices)
        shared = (f"cores of machine {machine.machine}" for machine in self.machines)
        return (*links, *nodes, *servers, *shared)

    def add_shared(self, busy: FloatArray) -> None:
        """Fill in the shared machines' columns of `busy` (..., columns), in seconds, from the nodes' columns."""
        core_seconds = busy[..., self.nodes] * self.cores
        for column, (machine, nodes) in enumerate(self.machines.items(), self.shared.start):
            busy[..., column] = core_seconds @ nodes / machine.count
