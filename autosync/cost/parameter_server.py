"""Traffic of a parameter server: values pulled by every replica, gradients pushed and summed on the server.

Dense gradients of several replicas on another node are summed on that node first, so that they cross once; with a
local copy, the value crosses to that node once, too. Of a sparse variable only touched rows travel, for each replica.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosync.cost.exchange import Exchange, Transfer, Work
from autosync.cost.processes import Processes

__all__ = ["dense_server_exchange", "sparse_server_exchange"]


def dense_server_exchange(
    server: str, local_copy: bool, replicas: Sequence[str], processes: Processes, slots: int
) -> Exchange:
    """A dense shard on `server`, which updates it with its `slots` optimizer slots."""
    by_node: dict[str, list[str]] = {}
    for replica in replicas:
        by_node.setdefault(processes.node_of[replica], []).append(replica)
    home = processes.node_of[server]
    pull: list[tuple[str, str]] = []
    push: list[tuple[str, str]] = []
    work: list[Work] = []
    arriving = 0
    for node, members in by_node.items():
        gateway = processes.gateway_of[node]
        if local_copy and node != home:
            pull += [(server, gateway), *((gateway, each) for each in members)]
        else:
            pull += [(server, each) for each in members]
        if node != home and len(members) > 1:
            push += [*((each, gateway) for each in members), (gateway, server)]
            work.append(Work(gateway, float(len(members))))
            arriving += 1
        else:
            push += [(each, server) for each in members]
            arriving += len(members)
    work.append(Work(server, float(arriving) if arriving > 1 else 0.0, updated_held=1.0 + slots))
    return Exchange(tuple(_whole(pull, processes)), tuple(_whole(push, processes)), tuple(work), 1, 1, server)


def sparse_server_exchange(server: str, replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """A sparse shard on `server`: row numbers go there, rows come back; later row numbers and gradients go there.

    An optimizer with slots updates all rows, one without only the touched ones.
    """
    pull, push = [], []
    for replica in replicas:
        if processes.apart(replica, server):
            pull += [Transfer(replica, server, payload=0.0, index=1.0), Transfer(server, replica, payload=1.0)]
            push.append(Transfer(replica, server, payload=1.0, index=1.0, messages=2.0))
    count = float(len(replicas))
    touched = (
        Work(server, count, updated_payload=count) if slots == 0 else Work(server, count, updated_held=1.0 + slots)
    )
    return Exchange(tuple(pull), tuple(push), (touched,), pull_rounds=2, push_rounds=1, server=server)


def _whole(pairs: Sequence[tuple[str, str]], processes: Processes) -> Iterator[Transfer]:
    """Each of `pairs` that lies in two processes, sent everything in a message."""
    return (Transfer(source, target, payload=1.0) for source, target in pairs if processes.apart(source, target))
