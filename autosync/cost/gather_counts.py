"""Counts the pairs of replicas in a gather without listing them: a thousand replicas have a million pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from autosync.cost.node_classes import NodeClasses
from autosync.layout.channels import Channel, Exchanges
from autosync.layout.exchange import DeviceWork
from autosync.layout.gather import gather_among
from autosync.layout.topology import Topology
from autosync.numeric import FloatArray

MOST_LISTED = 64
"""The maximum number of nodes for which all pairs are visited one by one."""


NodeKind: TypeAlias = tuple[str, bool]
"""(node, whether the replica is a GPU of the node)."""


class Pairs(NamedTuple):
    """Counts of pairs of replicas in which the first sends to the second."""

    over_links: FloatArray
    """The number of pairs that cross each link, (columns,)."""

    at_cores: FloatArray
    """The number of pairs' ends on each node's cores, (columns,)."""

    latency_seconds: float
    """The longest latency."""


def pairs_of_all(alike: NodeClasses) -> Pairs:
    """All pairs of the replicas."""
    resources = alike.resources
    held = Counter(resources.node_of[replica] for replica in alike.replicas)
    on_gpus = Counter(resources.node_of[replica] for replica in alike.replicas if "/gpu:" in replica)
    over_links, at_cores = np.zeros(resources.count), np.zeros(resources.count)
    total, longest = held.total(), 0.0
    for node, count in held.items():
        within, in_process = count * (count - 1), on_gpus[node] * (on_gpus[node] - 1)
        at_cores[resources.node_column[node]] = 2 * (count * (total - count) + within - in_process)
        if within:
            links, seconds = alike.route(node, node)
            over_links[links] += within
            longest = max(longest, seconds)
    for members in alike.nodes:
        if count := held[members[0]]:
            longest = max(longest, _add_from(members, count, held, alike, over_links))
    return Pairs(over_links, at_cores, longest)


def _add_from(members: list[str], count: int, held: Counter[str], alike: NodeClasses, over_links: FloatArray) -> float:
    """Add messages from a class of nodes, with `count` replicas each, to other nodes; return the longest latency."""
    within, longest = set(members), 0.0
    of_first = {column: number for number, column in enumerate(alike.columns[members[0]])}
    # For each link of a node: the number of replicas beyond the link, counted from the first node of the class. Members
    # do not send to themselves, so `itself` is subtracted from the count of every member.
    beyond, itself = np.zeros(len(of_first)), np.zeros(len(of_first))
    for target, there in held.items():
        source = members[0]
        if target == source:
            if len(members) == 1:
                continue
            source = members[1]
        links, seconds = alike.route(source, target)
        longest = max(longest, seconds)
        senders = len(members) - (target in within)
        numbers = of_first if source == members[0] else {c: number for number, c in enumerate(alike.columns[source])}
        for link in links:
            if link in numbers:
                beyond[numbers[link]] += there
                if target in within:
                    itself[numbers[link]] = there
            else:
                over_links[link] += count * there * senders
    for member in members:
        over_links[alike.columns[member]] += count * (beyond - itself)
    return longest


def gather_pairs(topology: Topology, alike: NodeClasses) -> list[Pairs]:
    """The pairs that send in each stage of a gather among the replicas."""
    gather, node_of = gather_among(topology), alike.resources.node_of
    if not gather.levels:
        return [pairs_of_all(alike)]
    places = [(node_of[replica], "/gpu:" in replica) for replica in topology.replicas]
    return [_pairs_of(stage, alike) for stage in gather.part_counts(places)]


def _pairs_of(stage: Mapping[tuple[NodeKind, NodeKind], int], alike: NodeClasses) -> Pairs:
    """The pairs of a stage, which maps (source, target) to the number of pairs."""
    resources = alike.resources
    over_links, at_cores, longest = np.zeros(resources.count), np.zeros(resources.count), 0.0
    for ((source, on_gpu), (target, to_gpu)), count in stage.items():
        links, seconds = alike.route(source, target)
        over_links[links] += count
        longest = max(longest, seconds)
        if source != target or not (on_gpu and to_gpu):
            for node in (source, target):
                at_cores[resources.node_column[node]] += count
    return Pairs(over_links, at_cores, longest)


def work_of_gather(topology: Topology, slots: int, channel: Channel) -> Sequence[DeviceWork]:
    """The work of all replicas in a gather, scaled up from a gather of two replicas."""
    two, half = Topology(topology.cluster, topology.replicas[:2]), len(topology) / 2
    work = Exchanges(two, slots).of(channel).work[0]
    return [
        DeviceWork(replica, work.added * half, work.updated_touched * half, work.updated_held)
        for replica in topology.replicas
    ]
