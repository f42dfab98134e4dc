"""Clusters for fitted schedules: stars and racks with equal or unequal links, in Mbit/s."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec, Figure, Link, Node

__all__ = ["SHAPES", "everyone", "jittered", "shaped"]


def shaped(
    *racks: int, up: float = 200, down: float = 200, uplink: float = 100, own: Mapping[int, tuple[float, float]] = {}
) -> ClusterSpec:
    """Racks with the given numbers of nodes; a single rack is a switch. `own` are rates (up, down) of single nodes."""
    links, count = [], 0
    for rack, size in enumerate(racks):
        switch = f"rack{rack}"
        for number in range(count, count + size):
            faster, slower = own.get(number, (up, down))
            links += [_link(f"node{number}", switch, faster), _link(switch, f"node{number}", slower)]
        count += size
        if len(racks) > 1:
            links += [_link(switch, "core", uplink), _link("core", switch, uplink)]
    nodes = tuple(Node(f"node{number}", "", 2.0) for number in range(count))
    loops = [_link(node.name, node.name, 8000) for node in nodes]
    switches = tuple(f"rack{rack}" for rack in range(len(racks)))
    return ClusterSpec(nodes, tuple(links + loops), (*switches, *(("core",) if len(racks) > 1 else ())))


def _link(source: str, target: str, mbit: float) -> Link:
    return Link(source, target, Figure(mbit / 1e3, "stated"), Figure(150.0, "stated"))


def everyone(cluster: ClusterSpec) -> Topology:
    return Topology.of(cluster)


def jittered(cluster: ClusterSpec, share: float, rng: random.Random) -> ClusterSpec:
    """The cluster as another probe may measure it: each rate is off by up to `share`."""
    links = [
        replace(link, gbit_per_s=Figure(link.gbit_per_s.value * rng.uniform(1 - share, 1 + share), "measured"))
        for link in cluster.links
    ]
    return replace(cluster, links=tuple(links))


SHAPES = {
    **{f"{count} on a switch": shaped(count) for count in (3, 4, 5, 6, 7, 8)},
    "two racks of two": shaped(2, 2),
    "two racks of two, wide uplinks": shaped(2, 2, uplink=200),
    "two racks of two, fast nodes": shaped(2, 2, up=1000, down=1000, uplink=300),
    "three racks of two": shaped(2, 2, 2),
    "three racks of two, wide uplinks": shaped(2, 2, 2, uplink=200),
    "racks of three and two": shaped(3, 2),
    "racks of three and two, wide uplinks": shaped(3, 2, uplink=200),
    "one slow node of five": shaped(5, own={4: (50, 50)}),
    "up slower than down": shaped(4, up=100, down=400),
    "unlike links": shaped(6, own={0: (1000, 200), 1: (200, 1000), 2: (100, 400), 3: (400, 100)}),
}
