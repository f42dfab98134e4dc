"""Traffic and work of one shard's synchronization, in proportion to the shard's bytes.

Each synchronizer has its own file (`all_reduce/ring`, `all_reduce/tree`, `server`, ...), which describes it once for a
set of devices. Multiplying with the quantities of a shard or bucket (`Quantities`) gives the figures of that shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autosync.spec import ClusterSpec

SCALE_BYTES = 4
"""Bytes of a scale. A gradient in fp16 has one scale, a float32, which travels in a separate message."""


class Quantities(NamedTuple):
    """The byte and message counts of a shard or a bucket."""

    payload_bytes: float = 0.0
    """Bytes of the gradient as sent; for a sparse shard, only the rows that a replica touches."""

    index_bytes: float = 0.0
    """Bytes of the row numbers."""

    touched_bytes: float = 0.0
    """Bytes of the pulled values of a dense shard, or of the decoded gradient that is added."""

    held_bytes: float = 0.0
    """Bytes of the stored values."""

    pieces: float = 1.0
    """1, or the number of messages sent instead of one. In a ring, which cuts a bucket into one chunk per replica, the
    share of the chunks that are not empty."""

    scales: float = 0.0
    """`pieces` if gradients have scales, else 0."""

    gradient_bytes: float = 0.0
    """Bytes of the gradient before encoding. They record where gradients travel and load no link."""

    answered_bytes: float = 0.0
    """Bytes that a server of a sparse shard sends to a replica: the rows that the replica looks up or, if replicas keep
    copies, the rows that any replica has touched, with their numbers."""


@dataclass(frozen=True)
class Transfer:
    """The messages from one device to another, as shares of the quantities of a shard or bucket."""

    source: str
    target: str
    payload: float = 0.0
    """Share of the payload bytes."""

    index: float = 0.0
    """Share of the index bytes."""

    touched: float = 0.0
    """Share of the touched bytes."""

    messages: float = 1.0
    """Number of messages."""

    gradients: float = 0.0
    """Number of those messages that carry gradients, which may have scales."""

    answered: float = 0.0
    """Share of the answered bytes."""


@dataclass(frozen=True)
class Stage:
    """Concurrent transfers, each a chain of `rounds` messages in which every message waits for the previous one."""

    transfers: tuple[Transfer, ...]
    rounds: int = 1


@dataclass(frozen=True)
class DeviceWork:
    """The bytes that a device reads to add gradients and writes to update values, as shares of the shard's bytes.

    `added` and `updated_touched` are shares of the touched bytes, `updated_held` of the held bytes. `updated_touched`
    counts for optimizers that update only touched rows, `updated_held` for whole-array updates.
    """

    device: str
    added: float
    updated_touched: float = 0.0
    updated_held: float = 0.0


@dataclass(frozen=True)
class Exchange:
    """The traffic and work of one synchronizer. Each stage of a pull or push waits for the previous stage."""

    pull: tuple[Stage, ...] = ()
    """Moves values before the forward pass; with `sends_back`, at the end of the push, for the next step."""

    push: tuple[Stage, ...] = ()
    """Moves gradients once they are ready."""

    work: tuple[DeviceWork, ...] = ()

    server: str | None = None
    """The device whose work no other device can share; None if there is no such device."""

    sends_back: bool = False
    """Whether the server sends values at the end of the push."""


@dataclass(frozen=True)
class Processes:
    """The process behind each device: `cpu:k` is a node's k-th worker process; GPUs belong to a node's only process."""

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

        A GPU and the CPU of its process count as one place. Two GPUs do not: their messages cross the node's loopback.
        """
        return source != target and self._host_of[source] != target and self._host_of[target] != source
