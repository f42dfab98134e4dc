"""Traffic of a parameter server: gradients pushed and summed on the server, values sent to every replica.

Dense gradients of several replicas on another node are summed on that node first, so that they cross the link once;
with a local copy, the value also crosses to that node once. A dense value is sent as soon as the server has updated it.
A value with staleness is pulled before the forward pass, which makes no difference here. For a sparse variable, only
the touched rows travel, separately for each replica. They are pulled before the forward pass, when the row numbers are
known. If replicas keep copies, the rows that any replica has touched come back instead, after the last gradient; the
replay counts these rows before the forward pass, too, unless steps overlap.
"""

from collections.abc import Iterator, Sequence

from autosync.layout.exchange import DeviceWork, Exchange, Processes, Stage, Transfer


def dense_server_exchange(
    server: str, local_copy: bool, replicas: Sequence[str], processes: Processes, slots: int
) -> Exchange:
    """The exchange of a dense shard on `server`, which updates it with its `slots` optimizer slots."""
    pull = pull_exchange(server, local_copy, replicas, processes, slots)
    push = push_exchange(server, replicas, processes)
    return Exchange(pull.pull, push.push, pull.work + push.work, server, sends_back=True)


def pull_exchange(server: str, local_copy: bool, replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """The exchange of values alone: their update, and a message to every replica, via its node's first CPU if values
    have a local copy."""
    home = processes.node_of[server]
    pairs: list[tuple[str, str]] = []
    for node, members in _by_node(replicas, processes).items():
        if local_copy and node != home:
            gateway = processes.gateway_of[node]
            pairs += [(server, gateway), *((gateway, replica) for replica in members)]
        else:
            pairs += [(server, replica) for replica in members]
    transfers = tuple(Transfer(*pair, touched=1.0) for pair in _apart(pairs, processes))
    work = DeviceWork(server, 0.0, updated_held=1.0 + slots)
    return Exchange(pull=(Stage(transfers),), work=(work,), server=server, sends_back=True)


def push_exchange(server: str, replicas: Sequence[str], processes: Processes) -> Exchange:
    """The exchange of gradients alone: gradients that can be summed on the way are summed on their node first."""
    home = processes.node_of[server]
    pairs: list[tuple[str, str]] = []
    work: list[DeviceWork] = []
    arriving = 0
    for node, members in _by_node(replicas, processes).items():
        if node != home and len(members) > 1:
            gateway = processes.gateway_of[node]
            pairs += [*((replica, gateway) for replica in members), (gateway, server)]
            work.append(DeviceWork(gateway, float(len(members))))
            arriving += 1
        else:
            pairs += [(replica, server) for replica in members]
            arriving += len(members)
    work.append(DeviceWork(server, float(arriving) if arriving > 1 else 0.0))
    transfers = tuple(Transfer(*pair, payload=1.0, gradients=1.0) for pair in _apart(pairs, processes))
    return Exchange(push=(Stage(transfers),), work=tuple(work), server=server)


def individual_push_exchange(server: str, replicas: Sequence[str], processes: Processes) -> Exchange:
    """The exchange of gradients that cannot be summed on the way: every replica sends directly to the server."""
    pairs = _apart([(replica, server) for replica in replicas], processes)
    transfers = tuple(Transfer(*pair, payload=1.0) for pair in pairs)
    return Exchange(push=(Stage(transfers),), work=(DeviceWork(server, float(len(replicas))),), server=server)


def send_back_exchange(server: str, replicas: Sequence[str], processes: Processes) -> Exchange:
    """The exchange of a sum, from the server to every replica in the middle of the push."""
    pairs = _apart([(server, replica) for replica in replicas], processes)
    return Exchange(push=(Stage(tuple(Transfer(*pair, payload=1.0) for pair in pairs)),))


def sparse_server_exchange(server: str, replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """The exchange of a sparse shard: row numbers go to `server`, rows come back, and later gradients go to `server`.

    If replicas keep copies, row numbers go with the gradients, and the numbers of all rows that any replica has touched
    come back with the rows. Every replica then updates its copy; the work counts on the server alone.

    An optimizer with slots updates all rows, an optimizer without slots only the touched rows.
    """
    ask, answer, push = [], [], []
    for replica in replicas:
        if processes.apart(replica, server):
            ask.append(Transfer(replica, server, index=1.0))
            answer.append(Transfer(server, replica, answered=1.0))
            push.append(Transfer(replica, server, payload=1.0, gradients=1.0))
    count = float(len(replicas))
    touched = (
        DeviceWork(server, count, updated_touched=count)
        if slots == 0
        else DeviceWork(server, count, updated_held=1.0 + slots)
    )
    pull = Stage(tuple(ask)), Stage(tuple(answer))
    return Exchange(pull, (Stage(tuple(push)),), (touched,), server)


def _by_node(replicas: Sequence[str], processes: Processes) -> dict[str, list[str]]:
    by_node: dict[str, list[str]] = {}
    for replica in replicas:
        by_node.setdefault(processes.node_of[replica], []).append(replica)
    return by_node


def _apart(pairs: Sequence[tuple[str, str]], processes: Processes) -> Iterator[tuple[str, str]]:
    """The `pairs` whose devices lie in two processes; each pair exchanges one message."""
    return (pair for pair in pairs if processes.apart(*pair))
