"""Hierarchical all-reduce: inside each node, then a ring across nodes, then inside each node again.

A node's first replica is its leader. The node's other replicas send the leader their bucket. The leaders all-reduce in
a ring, in the order in which their nodes appear among the replicas, and each leader sends the mean to the other
replicas of its node. Each of M nodes sends 2(M-1)/M of a bucket to other nodes, for any number of replicas.

In 16 bits an element is rounded once inside its node, M-1 times in the ring and once when the mean is sent: its error
is at most about M + 1 times that of one message (`wire`) of the largest partial sum.
"""

from collections import Counter
from collections.abc import Sequence

from autosync.layout.all_reduce import LaidOut
from autosync.layout.all_reduce.ring import ring_moves, ring_stage
from autosync.layout.exchange import DeviceWork, Exchange
from autosync.layout.moves import Move, Moves, stage_of
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec


def _moves(topology: Topology, elements: int, item_bytes: int) -> Moves:
    followers = _followers(topology.nodes)
    inside, across = _inside(followers, elements), ring_moves(list(followers), elements, item_bytes)
    return Moves((*inside.adding, *across.adding), (*across.copying, *inside.copying))


def _followers(nodes: Sequence[str]) -> dict[int, list[int]]:
    """The other members of each leader's node, by leader; nodes in order of first appearance."""
    by_node: dict[str, list[int]] = {}
    for member, node in enumerate(nodes):
        by_node.setdefault(node, []).append(member)
    return {members[0]: members[1:] for members in by_node.values()}


def _inside(followers: dict[int, list[int]], elements: int) -> Moves:
    """The moves inside nodes: one round to the leaders, and one round back."""
    up = [Move(member, leader, (0, elements)) for leader, members in followers.items() for member in members]
    return Moves.there_and_back([up])


def _exchange(topology: Topology, slots: int) -> Exchange:
    """The exchange in which a leader adds its node's buckets and its chunks of the ring, and every replica updates the
    whole bucket with its `slots` optimizer slots."""
    followers = _followers(topology.nodes)
    inside, leaders = _inside(followers, 1), len(followers)
    up, down = (stage_of(moves, 1, topology) for moves in (*inside.adding, *inside.copying))
    ring = ring_stage(list(followers), topology)
    added = {leader: len(members) + (leaders - 1) / leaders for leader, members in followers.items()}
    work = tuple(
        DeviceWork(replica, added.get(number, 0.0), updated_held=1.0 + slots)
        for number, replica in enumerate(topology.replicas)
    )
    return Exchange(push=(up, ring, down), work=work)


def nodes_share_replicas(cluster: ClusterSpec) -> bool:
    """Whether there are several nodes, and some node has several replicas, which reduce among themselves first."""
    by_node = Counter(device.node for device in cluster.replica_devices)
    return len(cluster.nodes) > 1 and max(by_node.values()) > 1


LAID_OUT = LaidOut(_moves, _exchange, differs=nodes_share_replicas)
