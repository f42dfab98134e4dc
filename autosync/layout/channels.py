"""Channels: the elementary exchanges that synchronizers are composed of, with or without compression."""

from dataclasses import dataclass
from typing import TypeAlias

from autosync.layout.all_reduce import layout_of
from autosync.layout.exchange import DeviceWork, Exchange, Transfer
from autosync.layout.gather import gather_stages
from autosync.layout.server import (
    dense_server_exchange,
    individual_push_exchange,
    pull_exchange,
    push_exchange,
    send_back_exchange,
    sparse_server_exchange,
)
from autosync.layout.topology import Topology
from autosync.spec import ALGORITHMS


def row_gather_exchange(topology: Topology, slots: int) -> Exchange:
    """Every replica adds all replicas' rows and updates its own table: touched rows, or all rows if there are slots."""
    count = float(len(topology))
    work = tuple(
        DeviceWork(replica, count, updated_touched=count)
        if slots == 0
        else DeviceWork(replica, count, updated_held=1.0 + slots)
        for replica in topology.replicas
    )
    return Exchange(push=gather_stages(topology, GATHERED["gathered_rows"]), work=work)


def all_gather_exchange(topology: Topology, slots: int) -> Exchange:
    """Every replica adds all replicas' parts and updates its whole values with its `slots` optimizer slots."""
    work = tuple(DeviceWork(replica, float(len(topology)), updated_held=1.0 + slots) for replica in topology.replicas)
    return Exchange(push=gather_stages(topology, GATHERED["all_gather"]), work=work)


Channel: TypeAlias = tuple[str, str, bool]
"""A channel: (kind, server or "", local copy). The kind is an all-reduce algorithm, `all_gather`, `gathered_rows`,
`dense_server` or `sparse_server`; for a compressed server `pull`, `push`, `own_push` or `send_back`; `coding`, which is
work on every replica, or `server_coding`."""

GATHERED = {
    "all_gather": Transfer("", "", payload=1.0),
    "gathered_rows": Transfer("", "", payload=1.0, index=1.0, messages=2.0, gradients=1.0),
}
"""Channels in which each replica has a part for all others: the message that carries one part, also via a relay."""

_OF_GATHERED = {"all_gather": all_gather_exchange, "gathered_rows": row_gather_exchange}
_OF_SERVER = {"push": push_exchange, "own_push": individual_push_exchange, "send_back": send_back_exchange}


@dataclass(frozen=True)
class Exchanges:
    """The exchange of every channel, for these replicas and an optimizer with `slots` slots. Add new channels here."""

    topology: Topology
    slots: int

    def of(self, channel: Channel) -> Exchange:
        """The exchange of `channel`. Raises `KeyError` if the channel is unknown or the cluster lacks its server."""
        kind, server, local_copy = channel
        replicas, processes = self.topology.replicas, self.topology.processes
        if kind in ALGORITHMS:
            return layout_of(kind).exchange(self.topology, self.slots)
        if kind in _OF_GATHERED:
            return _OF_GATHERED[kind](self.topology, self.slots)
        if kind == "dense_server":
            return dense_server_exchange(server, local_copy, replicas, processes, self.slots)
        if kind == "sparse_server":
            return sparse_server_exchange(server, replicas, processes, self.slots)
        if kind == "pull":
            return pull_exchange(server, local_copy, replicas, processes, self.slots)
        if kind == "coding":
            return Exchange(work=tuple(DeviceWork(replica, 1.0) for replica in replicas))
        if kind == "server_coding":
            return Exchange(work=(DeviceWork(server, 1.0),))
        return _OF_SERVER[kind](server, replicas, processes)
