"""What one shard's synchronization moves and computes, in proportion to its bytes.

A synchronizer (one a file: `all_reduce/ring`, `all_reduce/tree`, `server`, ...) is described once for a set of devices;
its figures for a shard or a bucket follow by multiplying with that one's quantities (`Quantities`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autosync.spec import ClusterSpec

SCALE_BYTES = 4
"""Bytes of a scale: a gradient in fp16 has one, a float32, in a message of its own."""


class Quantities(NamedTuple):
    """What a shard or a bucket weighs.

    `payload_bytes` are the gradient's as it is sent (of a sparse shard: of the rows a replica touches), `index_bytes`
    the row numbers', `touched_bytes` those of the values pulled, or of the decoded gradient added, `held_bytes` the
    stored values'. `pieces` is 1, or how many messages there are for one; in a ring, where a bucket is cut into a chunk
    a replica, the share of the chunks that are not empty. `scales` is `pieces` where gradients have scales, else 0.
    `gradient_bytes`, the gradient's before it is encoded, count where gradients go; they load nothing.
    """

    payload_bytes: float = 0.0
    index_bytes: float = 0.0
    touched_bytes: float = 0.0
    held_bytes: float = 0.0
    pieces: float = 1.0
    scales: float = 0.0
    gradient_bytes: float = 0.0


@dataclass(frozen=True)
class Transfer:
    """What goes from one device to another: shares of payload, index and touched bytes, in `messages`.

    `gradients` of the messages are gradients, which may have scales.
    """

    source: str
    target: str
    payload: float = 0.0
    index: float = 0.0
    touched: float = 0.0
    messages: float = 1.0
    gradients: float = 0.0


@dataclass(frozen=True)
class Stage:
    """Transfers that go on at the same time, as a chain of `rounds` messages that wait for each other."""

    transfers: tuple[Transfer, ...]
    rounds: int = 1


@dataclass(frozen=True)
class Work:
    """What a device reads to add gradients and writes to update values, as shares of the shard's bytes.

    `added` and `updated_touched` are shares of the touched bytes: the latter counts for optimizers that update touched
    rows only, `updated_held` for whole-array updates.
    """

    device: str
    added: float
    updated_touched: float = 0.0
    updated_held: float = 0.0


@dataclass(frozen=True)
class Exchange:
    """One synchronizer at work: `pull` moves values before the forward pass, `push` gradients once they are ready.

    Where the server `sends_back`, `pull` moves values at the end of the push, for the next step. Each stage of a pull
    or push waits for the one before. `server` is the device whose work no other device can share, if there is one.
    """

    pull: tuple[Stage, ...] = ()
    push: tuple[Stage, ...] = ()
    work: tuple[Work, ...] = ()
    server: str | None = None
    sends_back: bool = False


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
