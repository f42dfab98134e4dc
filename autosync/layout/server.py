"""Traffic of a parameter server: gradients pushed and summed on the server, values sent to every replica.

Dense gradients of several replicas on another node are summed on that node first, so that they cross once; with a
local copy, the value crosses to that node once, too. A dense value is sent as soon as it is updated (one with staleness
is pulled before the forward pass, which makes no difference here). Of a sparse variable only touched rows travel, for
each replica: pulled before the forward pass, when it is known which they are.
"""

from collections.abc import Iterator, Sequence

from autosync.layout.exchange import Exchange, Processes, Stage, Transfer, Work


def dense_server_exchange(
    server: str, local_copy: bool, replicas: Sequence[str], processes: Processes, slots: int
) -> Exchange:
    """The exchange of a dense shard on `server`, which updates it with its `slots` optimizer slots."""
    pull = pull_exchange(server, local_copy, replicas, processes, slots)
    push = push_exchange(server, replicas, processes)
    return Exchange(pull.pull, push.push, pull.work + push.work, server, sends_back=True)


def pull_exchange(server: str, local_copy: bool, replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """The exchange of values alone: to every replica, with a local copy by its node's first CPU; and their update."""
    home = processes.node_of[server]
    pairs: list[tuple[str, str]] = []
    for node, members in _by_node(replicas, processes).items():
        if local_copy and node != home:
            gateway = processes.gateway_of[node]
            pairs += [(server, gateway), *((gateway, each) for each in members)]
        else:
            pairs += [(server, each) for each in members]
    transfers = tuple(Transfer(*pair, touched=1.0) for pair in _apart(pairs, processes))
    work = Work(server, 0.0, updated_held=1.0 + slots)
    return Exchange(pull=(Stage(transfers),), work=(work,), server=server, sends_back=True)


def push_exchange(server: str, replicas: Sequence[str], processes: Processes) -> Exchange:
    """The exchange of gradients alone: what can be summed on the way is summed on each other node first."""
    home = processes.node_of[server]
    pairs: list[tuple[str, str]] = []
    work: list[Work] = []
    arriving = 0
    for node, members in _by_node(replicas, processes).items():
        if node != home and len(members) > 1:
            gateway = processes.gateway_of[node]
            pairs += [*((each, gateway) for each in members), (gateway, server)]
            work.append(Work(gateway, float(len(members))))
            arriving += 1
        else:
            pairs += [(each, server) for each in members]
            arriving += len(members)
    work.append(Work(server, float(arriving) if arriving > 1 else 0.0))
    transfers = tuple(Transfer(*pair, payload=1.0, gradients=1.0) for pair in _apart(pairs, processes))
    return Exchange(push=(Stage(transfers),), work=tuple(work), server=server)


def own_push_exchange(server: str, replicas: Sequence[str], processes: Processes) -> Exchange:
    """The exchange of what cannot be summed on the way: every replica sends its own straight to the server."""
    pairs = _apart([(each, server) for each in replicas], processes)
    transfers = tuple(Transfer(*pair, payload=1.0) for pair in pairs)
    return Exchange(push=(Stage(transfers),), work=(Work(server, float(len(replicas))),), server=server)


def send_back_exchange(server: str, replicas: Sequence[str], processes: Processes) -> Exchange:
    """The exchange of a sum, from the server to every replica in the middle of the push."""
    pairs = _apart([(server, each) for each in replicas], processes)
    return Exchange(push=(Stage(tuple(Transfer(*pair, payload=1.0) for pair in pairs)),))


def sparse_server_exchange(server: str, replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """The exchange of a sparse shard on `server`: row numbers go there, rows come back; later gradients go there.

    An optimizer with slots updates all rows, one without only the touched ones.
    """
    ask, answer, push = [], [], []
    for replica in replicas:
        if processes.apart(replica, server):
            ask.append(Transfer(replica, server, index=1.0))
            answer.append(Transfer(server, replica, touched=1.0))
            push.append(Transfer(replica, server, payload=1.0, gradients=1.0))
    count = float(len(replicas))
    touched = (
        Work(server, count, updated_touched=count) if slots == 0 else Work(server, count, updated_held=1.0 + slots)
    )
    pull = Stage(tuple(ask)), Stage(tuple(answer))
    return Exchange(pull, (Stage(tuple(push)),), (touched,), server)


def _by_node(replicas: Sequence[str], processes: Processes) -> dict[str, list[str]]:
    by_node: dict[str, list[str]] = {}
    for replica in replicas:
        by_node.setdefault(processes.node_of[replica], []).append(replica)
    return by_node


def _apart(pairs: Sequence[tuple[str, str]], processes: Processes) -> Iterator[tuple[str, str]]:
    """Those of `pairs` that lie in two processes; each pair is sent everything in a message."""
    return (pair for pair in pairs if processes.apart(*pair))
