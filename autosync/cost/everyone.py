"""Gathers, in which replicas have something for all others, counted: a thousand have a million pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from autosync.cost.alike import Alike
from autosync.layout.channels import Channel, Exchanges
from autosync.layout.exchange import Work
from autosync.layout.gather import gather_among
from autosync.layout.topology import Topology

FloatArray = npt.NDArray[np.float64]

MOST_LISTED = 64
"""The most nodes of which each pair is gone through by itself."""


Place: TypeAlias = tuple[str, bool]


class Pairs(NamedTuple):
    """Pairs of replicas, of which the first sends to the second: how many cross each link, (columns,), how many ends
    are on each node's cores, (columns,), and the longest latency."""

    over_links: FloatArray
    at_cores: FloatArray
    latency_seconds: float


def pairs_of_all(alike: Alike) -> Pairs:
    """All pairs of the replicas."""
    resources = alike.resources
    held = Counter(resources.node_of[each] for each in alike.replicas)
    on_gpus = Counter(resources.node_of[each] for each in alike.replicas if "/gpu:" in each)
    over_links, at_cores = np.zeros(resources.count), np.zeros(resources.count)
    all_of_them, longest = held.total(), 0.0
    for node, count in held.items():
        within, in_process = count * (count - 1), on_gpus[node] * (on_gpus[node] - 1)
        at_cores[resources.node_column[node]] = 2 * (count * (all_of_them - count) + within - in_process)
        if within:
            links, seconds = alike.route(node, node)
            over_links[links] += within
            longest = max(longest, seconds)
    for members in alike.nodes:
        if count := held[members[0]]:
            longest = max(longest, _add_from(members, count, held, alike, over_links))
    return Pairs(over_links, at_cores, longest)


def _add_from(members: list[str], count: int, held: Counter[str], alike: Alike, over_links: FloatArray) -> float:
    """Add what nodes that are alike, with `count` replicas each, send to other nodes; the longest latency of that."""
    within, longest = set(members), 0.0
    own = {column: number for number, column in enumerate(alike.own[members[0]])}
    # For each of a node's own links, the replicas beyond it: by way of the first node, to each but itself.
    beyond, itself = np.zeros(len(own)), np.zeros(len(own))
    for target, there in held.items():
        source = members[0]
        if target == source:
            if len(members) == 1:
                continue
            source = members[1]
        links, seconds = alike.route(source, target)
        longest = max(longest, seconds)
        senders = len(members) - (target in within)
        first = own if source == members[0] else {c: number for number, c in enumerate(alike.own[source])}
        for link in links:
            if link in first:
                beyond[first[link]] += there
                if target in within:
                    itself[first[link]] = there
            else:
                over_links[link] += count * there * senders
    for member in members:
        over_links[alike.own[member]] += count * (beyond - itself)
    return longest


def gather_pairs(topology: Topology, alike: Alike) -> list[Pairs]:
    """The pairs that send in each stage of a gather among the replicas."""
    gather, node_of = gather_among(topology), alike.resources.node_of
    if not gather.levels:
        return [pairs_of_all(alike)]
    places = [(node_of[each], "/gpu:" in each) for each in topology.replicas]
    return [_pairs_of(stage, alike) for stage in gather.between(places)]


def _pairs_of(stage: Mapping[tuple[Place, Place], int], alike: Alike) -> Pairs:
    """As many pairs as stated of replicas at two places, which are a node and whether it is one of its GPUs."""
    resources = alike.resources
    over_links, at_cores, longest = np.zeros(resources.count), np.zeros(resources.count), 0.0
    for ((source, on_gpu), (target, to_gpu)), many in stage.items():
        links, seconds = alike.route(source, target)
        over_links[links] += many
        longest = max(longest, seconds)
        if source != target or not (on_gpu and to_gpu):
            for node in (source, target):
                at_cores[resources.node_column[node]] += many
    return Pairs(over_links, at_cores, longest)


def work_of_gather(topology: Topology, slots: int, channel: Channel) -> Sequence[Work]:
    """The work of all replicas in a gather, which two replicas do in small."""
    two, half = Topology(topology.cluster, topology.replicas[:2]), len(topology) / 2
    work = Exchanges(two, slots).of(channel).work[0]
    return [Work(each, work.added * half, work.updated_touched * half, work.updated_held) for each in topology.replicas]
