"""Channels: the elementary ways to exchange that synchronizers, whole or compressed, are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autosync.layout.all_reduce import laid_out
from autosync.layout.exchange import Exchange, Processes, Stage, Transfer, Work
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


def gathered_rows_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """Every replica adds all replicas' rows and updates its own table: touched rows, or all when there are slots."""
    transfers = tuple(
        Transfer(source, target, payload=1.0, index=1.0, messages=2.0, gradients=1.0)
        for source in replicas
        for target in replicas
        if processes.apart(source, target)
    )
    count = float(len(replicas))
    work = tuple(
        Work(each, count, updated_touched=count) if slots == 0 else Work(each, count, updated_held=1.0 + slots)
        for each in replicas
    )
    return Exchange(push=(Stage(transfers),), work=work)


def all_gather_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """Every replica adds all replicas' parts and updates its whole values with its `slots` optimizer slots."""
    transfers = tuple(
        Transfer(source, target, payload=1.0)
        for source in replicas
        for target in replicas
        if processes.apart(source, target)
    )
    work = tuple(Work(each, float(len(replicas)), updated_held=1.0 + slots) for each in replicas)
    return Exchange(push=(Stage(transfers),), work=work)


Channel: TypeAlias = tuple[str, str, bool]
"""A channel: (what, server or "", local copy). What: an all-reduce algorithm, `all_gather`, `gathered_rows`,
`dense_server` or `sparse_server`; of a compressed server `pull`, `push`, `own_push` or `send_back`; `coding`, which is
work on every replica, or `server_coding`."""

_GATHERED = {"all_gather": all_gather_exchange, "gathered_rows": gathered_rows_exchange}
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
        if what in _GATHERED:
            return _GATHERED[what](replicas, processes, self.slots)
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
