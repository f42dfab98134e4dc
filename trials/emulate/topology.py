"""Clusters to emulate, told in a few characters."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Figure, Node, quoted
from trials.cluster.racks import ASSUMED_UPLINK, Attached, joined
from trials.rates import parse_rate

__all__ = ["parse_emulation", "star_of"]

MOST_NODES = 250
"""The most nodes of an emulated cluster: their addresses are 10.77.0.1 and on, in one /24."""


def parse_emulation(text: str) -> ClusterSpec:
    """The star that a text such as `4x200mbit` or `3x1.5gbit` names. Raises `ClusterError`."""
    found = re.fullmatch(r"(\d{1,3})x(.+)", text)
    if not found:
        raise ClusterError(
            f"An emulated cluster is written like 4x200mbit (nodes, then each link's rate), not {quoted(text)}."
        )
    return star_of(int(found[1]), parse_rate(found[2]))


def star_of(count: int, rate_gbit_per_s: float, cores: float | None = None) -> ClusterSpec:
    """`count` nodes on one switch, each link of that rate both ways.

    A node has `cores`; without them all of the machine's, which the nodes then share. Raises `ClusterError`.
    """
    if not 1 <= count <= MOST_NODES:
        raise ClusterError(f"An emulated cluster has 1 to {MOST_NODES} nodes, not {count}.")
    each = float(cores or os.cpu_count() or 1)
    uplink = replace(ASSUMED_UPLINK, up=Figure(rate_gbit_per_s, "stated"), down=Figure(rate_gbit_per_s, "stated"))
    nodes = [Node(f"node{index}", f"10.77.0.{index + 1}", each) for index in range(count)]
    return joined([Attached(node, uplink) for node in nodes], {})
