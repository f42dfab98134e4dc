"""Traffic of a hierarchical all-reduce of one bucket: inside each node, then a ring across nodes, then back.

A node's first replica leads it: the others send it their bucket, the leaders reduce in a ring, in the order in which
their nodes appear among the replicas, and each hands the mean to the other replicas of its node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autosync.layout.all_reduce import LaidOut
from autosync.layout.all_reduce.ring import ring_stage
from autosync.layout.exchange import Exchange, Processes, Stage, Transfer, Work
from autosync.spec import ClusterSpec

__all__ = ["LAID_OUT", "hierarchical_exchange", "nodes_share_replicas"]


def hierarchical_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """A leader adds its node's buckets and its chunks of the ring; all update the whole with their `slots` slots."""
    by_node: dict[str, list[str]] = {}
    for replica in replicas:
        by_node.setdefault(processes.node_of[replica], []).append(replica)
    led = {members[0]: members[1:] for members in by_node.values()}
    leaders = list(led)
    pairs = [(each, leader) for leader, others in led.items() for each in others if processes.apart(each, leader)]
    up = Stage(tuple(Transfer(each, leader, payload=1.0, gradients=1.0) for each, leader in pairs))
    down = Stage(tuple(Transfer(leader, each, payload=1.0, gradients=1.0) for each, leader in pairs))
    added = {leader: len(others) + (len(leaders) - 1) / len(leaders) for leader, others in led.items()}
    work = tuple(Work(each, added.get(each, 0.0), updated_held=1.0 + slots) for each in replicas)
    return Exchange(push=(up, ring_stage(leaders, processes), down), work=work)


def nodes_share_replicas(cluster: ClusterSpec) -> bool:
    """Whether there are several nodes, and some node has several replicas to do something together first."""
    by_node = Counter(device.node for device in cluster.replica_devices)
    return len(cluster.nodes) > 1 and max(by_node.values()) > 1


LAID_OUT = LaidOut(closed_form=hierarchical_exchange, differs=nodes_share_replicas)
