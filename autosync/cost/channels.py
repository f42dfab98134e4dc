"""Channels: the elementary ways to exchange that synchronizers, whole or compressed, are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from autosync.cost.all_gather import all_gather_exchange
from autosync.cost.exchange import Exchange, Work
from autosync.cost.gathered_rows import gathered_rows_exchange
from autosync.cost.halving_doubling import halving_doubling_exchange
from autosync.cost.hierarchical import hierarchical_exchange
from autosync.cost.parameter_server import (
    dense_server_exchange,
    own_push_exchange,
    pull_exchange,
    push_exchange,
    send_back_exchange,
    sparse_server_exchange,
)
from autosync.cost.processes import Processes
from autosync.cost.rabenseifner import rabenseifner_exchange
from autosync.cost.ring import ring_exchange
from autosync.cost.tree import tree_exchange

__all__ = ["Channel", "Exchanges"]

Channel: TypeAlias = tuple[str, str, bool]
"""A channel: (what, server or "", local copy). What: an all-reduce algorithm, `all_gather`, `gathered_rows`,
`dense_server` or `sparse_server`; of a compressed server `pull`, `push`, `own_push` or `send_back`; `coding`, which is
work on every replica, or `server_coding`."""

_AMONG_REPLICAS = {
    "ring": ring_exchange,
    "tree": tree_exchange,
    "halving_doubling": halving_doubling_exchange,
    "rabenseifner": rabenseifner_exchange,
    "hierarchical": hierarchical_exchange,
    "collective": ring_exchange,  # TensorFlow's, and NCCL's where messages are large
    "all_gather": all_gather_exchange,
    "gathered_rows": gathered_rows_exchange,
}
_OF_SERVER = {"push": push_exchange, "own_push": own_push_exchange, "send_back": send_back_exchange}


@dataclass(frozen=True)
class Exchanges:
    """The exchange behind every channel, for these replicas and an optimizer of `slots`; new ones join here."""

    replicas: tuple[str, ...]
    processes: Processes
    slots: int

    def of(self, channel: Channel) -> Exchange:
        """The exchange of `channel`. Raises `KeyError` for an unknown one, or a server that the cluster lacks."""
        what, server, local_copy = channel
        if what in _AMONG_REPLICAS:
            return _AMONG_REPLICAS[what](self.replicas, self.processes, self.slots)
        if what == "dense_server":
            return dense_server_exchange(server, local_copy, self.replicas, self.processes, self.slots)
        if what == "sparse_server":
            return sparse_server_exchange(server, self.replicas, self.processes, self.slots)
        if what == "pull":
            return pull_exchange(server, local_copy, self.replicas, self.processes, self.slots)
        if what == "coding":
            return Exchange(work=tuple(Work(each, 1.0) for each in self.replicas))
        if what == "server_coding":
            return Exchange(work=(Work(server, 1.0),))
        return _OF_SERVER[what](server, self.replicas, self.processes)
