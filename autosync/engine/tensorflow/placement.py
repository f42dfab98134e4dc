"""A cluster's device names as TensorFlow device strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Device


@dataclass(frozen=True)
class Placement:
    """TensorFlow's name for each device of the cluster. A node's first CPU device is its cache and gateway."""

    cluster: ClusterSpec
    names: Mapping[str, str]

    @classmethod
    def in_one_process(cls, cluster: ClusterSpec) -> Placement:
        """Place every CPU device on a logical device of this process; for tests and small machines."""
        names = {str(device): f"/CPU:{index}" for index, device in enumerate(cluster.server_devices)}
        return cls(cluster, names)

    @classmethod
    def on_workers(cls, cluster: ClusterSpec) -> Placement:
        """Place worker processes on tasks of job `worker`, numbered in the order of the cluster's server devices."""
        names = {}
        tasks = {device: task for task, device in enumerate(cluster.server_devices)}
        for device, task in tasks.items():
            names[str(device)] = f"/job:worker/replica:0/task:{task}/device:CPU:0"
        for node in cluster.nodes:
            for device in node.gpu_devices:
                task = tasks[node.cpu_devices[0]]
                names[str(device)] = f"/job:worker/replica:0/task:{task}/device:GPU:{device.index}"
        return cls(cluster, names)

    def name(self, device: str) -> str:
        """TensorFlow's name for `device`. Raises `ClusterError` with a list of the devices for an unknown one."""
        try:
            return self.names[device]
        except KeyError:
            raise ClusterError(
                f"The cluster has no device {device!r}; its devices are {', '.join(self.names)}."
            ) from None

    def node(self, device: str) -> str:
        return Device.parse(device).node

    def gateway(self, node: str) -> str:
        """TensorFlow's name for the first CPU device of `node`."""
        return self.names[str(self.cluster.node(node).cpu_devices[0])]
