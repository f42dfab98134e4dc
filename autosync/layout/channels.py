"""Channels: the elementary ways to exchange that synchronizers, whole or compressed, are made of."""

from dataclasses import dataclass
from typing import TypeAlias

from autosync.layout.all_reduce import laid_out
from autosync.layout.exchange import Exchange, Transfer, Work
from autosync.layout.gather import gather_stages
from autosync.layout.server import (
    dense_server_exchange,
    own_push_exchange,
    pull_exchange,
    push_exchange,
    send_back_exchange,
    sparse_server_exchange,
)
from autosync.layout.topology import Topology
from autosync.spec import ALGORITHMS


def gathered_rows_exchange(topology: Topology, slots: int) -> Exchange:
    """Every replica adds all replicas' rows and updates its own table: touched rows, or all when there are slots."""
    count = float(len(topology))
    work = tuple(
        Work(each, count, updated_touched=count) if slots == 0 else Work(each, count, updated_held=1.0 + slots)
        for each in topology.replicas
    )
    return Exchange(push=gather_stages(topology, GATHERED["gathered_rows"]), work=work)


def all_gather_exchange(topology: Topology, slots: int) -> Exchange:
    """Every replica adds all replicas' parts and updates its whole values with its `slots` optimizer slots."""
    work = tuple(Work(each, float(len(topology)), updated_held=1.0 + slots) for each in topology.replicas)
    return Exchange(push=gather_stages(topology, GATHERED["all_gather"]), work=work)


Channel: TypeAlias = tuple[str, str, bool]
"""A channel: (what, server or "", local copy). What: an all-reduce algorithm, `all_gather`, `gathered_rows`,
`dense_server` or `sparse_server`; of a compressed server `pull`, `push`, `own_push` or `send_back`; `coding`, which is
work on every replica, or `server_coding`."""

GATHERED = {
    "all_gather": Transfer("", "", payload=1.0),
    "gathered_rows": Transfer("", "", payload=1.0, index=1.0, messages=2.0, gradients=1.0),
}
"""Channels in which each replica has something for all others: what goes for each of them, whoever sends it on."""

_OF_GATHERED = {"all_gather": all_gather_exchange, "gathered_rows": gathered_rows_exchange}
_OF_SERVER = {"push": push_exchange, "own_push": own_push_exchange, "send_back": send_back_exchange}


@dataclass(frozen=True)
class Exchanges:
    """The exchange behind every channel, for these replicas and an optimizer of `slots`; new ones join here."""

    topology: Topology
    slots: int

    def of(self, channel: Channel) -> Exchange:
        """The exchange of `channel`. Raises `KeyError` for an unknown one, or a server that the cluster lacks."""
        what, server, local_copy = channel
        replicas, processes = self.topology.replicas, self.topology.processes
        if what in ALGORITHMS:
            return laid_out(what).exchange(self.topology, self.slots)
        if what in _OF_GATHERED:
            return _OF_GATHERED[what](self.topology, self.slots)
        if what == "dense_server":
            return dense_server_exchange(server, local_copy, replicas, processes, self.slots)
        if what == "sparse_server":
            return sparse_server_exchange(server, replicas, processes, self.slots)
        if what == "pull":
            return pull_exchange(server, local_copy, replicas, processes, self.slots)
        if what == "coding":
            return Exchange(work=tuple(Work(each, 1.0) for each in replicas))
        if what == "server_coding":
            return Exchange(work=(Work(server, 1.0),))
        return _OF_SERVER[what](server, replicas, processes)
