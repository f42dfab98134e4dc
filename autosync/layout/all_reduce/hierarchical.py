"""Hierarchical all-reduce: inside each node, then a ring across nodes, then inside each node again.

A node's first replica leads it. The node's others send it their bucket; the leaders reduce in a ring, in the order in
which their nodes appear among the replicas, and each hands the mean to the other replicas of its node. Across nodes M
of them send 2(M-1)/M of a bucket each, however many replicas they have.

In 16 bits an element is rounded once inside its node, M-1 times in the ring and once when the mean is sent: its error
is at most about M + 1 times that of one message (`wire`) of the largest partial sum.
"""

from collections import Counter
from collections.abc import Sequence

from autosync.layout.all_reduce import LaidOut
from autosync.layout.all_reduce.ring import ring_moves, ring_stage
from autosync.layout.exchange import Exchange, Work
from autosync.layout.moves import Move, Moves, stage_of
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec


def _moves(topology: Topology, elements: int, item_bytes: int) -> Moves:
    led = _led(topology.nodes)
    inside, across = _inside(led, elements), ring_moves(list(led), elements, item_bytes)
    return Moves((*inside.adding, *across.adding), (*across.copying, *inside.copying))


def _led(nodes: Sequence[str]) -> dict[int, list[int]]:
    """The members that each node's leader leads, nodes in order of first appearance."""
    by_node: dict[str, list[int]] = {}
    for member, node in enumerate(nodes):
        by_node.setdefault(node, []).append(member)
    return {members[0]: members[1:] for members in by_node.values()}


def _inside(led: dict[int, list[int]], elements: int) -> Moves:
    """The moves of nodes: a round to the leaders, and one back."""
    up = [Move(each, leader, (0, elements)) for leader, others in led.items() for each in others]
    return Moves.there_and_back([up])


def _exchange(topology: Topology, slots: int) -> Exchange:
    """A leader adds its node's buckets and its chunks of the ring; all update the whole with their `slots` slots."""
    led = _led(topology.nodes)
    inside = _inside(led, 1)
    up, down = (stage_of(each, 1, topology) for each in (*inside.adding, *inside.copying))
    ring = ring_stage(list(led), topology)
    added = {leader: len(others) + (len(led) - 1) / len(led) for leader, others in led.items()}
    work = tuple(
        Work(each, added.get(place, 0.0), updated_held=1.0 + slots) for place, each in enumerate(topology.replicas)
    )
    return Exchange(push=(up, ring, down), work=work)


def nodes_share_replicas(cluster: ClusterSpec) -> bool:
    """Whether there are several nodes, and some node has several replicas to do something together first."""
    by_node = Counter(device.node for device in cluster.replica_devices)
    return len(cluster.nodes) > 1 and max(by_node.values()) > 1


LAID_OUT = LaidOut(_moves, _exchange, differs=nodes_share_replicas)
