"""Hierarchical all-reduce: inside each node, then a ring across nodes, then inside each node again.

A node's first replica leads it. The node's others send it their bucket; the leaders reduce in a ring, in the order in
which their nodes appear among the replicas, and each hands the mean to the other replicas of its node. Across nodes M
of them send 2(M-1)/M of a bucket each, however many replicas they have.

In 16 bits an element is rounded once inside its node, M-1 times in the ring and once when the mean is sent: its error
is at most about M + 1 times that of one message (`wire`) of the largest partial sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosync.engine.arrays import scaled
from autosync.engine.sync.all_reduce.ring import ring_messages
from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Message, Wire, joined

__all__ = ["hierarchical_mean"]


def hierarchical_mean(members: Sequence[Member], gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member."""
    if len(members) == 1:
        return [[gradients[0]]]
    devices = [member.device for member in members]
    nodes = _by_node(members)
    sums = []
    for leader, *others in nodes:
        total = gradients[leader]
        for other in others:
            total = wire.added(gradients[other], devices[other], total, devices[leader])
        sums.append(total)
    leaders = [devices[leader] for leader, *_ in nodes]
    messages: dict[int, Message] = {}
    for node, message in zip(nodes, _across(leaders, sums, 1.0 / len(members), wire), strict=True):
        leader, *others = node
        messages |= {leader: message} | {other: message.at(devices[other]) for other in others}
    return [[messages[number].read(device)] for number, device in enumerate(devices)]


def _by_node(members: Sequence[Member]) -> list[list[int]]:
    """The numbers of each node's members, nodes in order of first appearance."""
    nodes: dict[str, list[int]] = {}
    for number, member in enumerate(members):
        nodes.setdefault(member.node, []).append(number)
    return list(nodes.values())


def _across(leaders: Sequence[str], sums: Sequence[Any], factor: float, wire: Wire) -> list[Message]:
    """The sum of the leaders' sums times `factor`, at every leader."""
    if len(leaders) > 1:
        arrived = ring_messages(leaders, sums, factor, wire)
        return [joined(messages, leader) for messages, leader in zip(arrived, leaders, strict=True)]
    return [wire.message(scaled(sums[0], factor, leaders[0]), leaders[0])]
