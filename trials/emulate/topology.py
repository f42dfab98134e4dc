"""Clusters to emulate, told in a few characters."""

from __future__ import annotations

import os
import re

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Figure, Node

__all__ = ["parse_emulation", "parse_rate", "star_of"]

MOST_NODES = 250
"""Addresses are 10.77.0.1 and on, in one /24."""

# What the host gives; nothing shapes it.
ASSUMED_LINK_LATENCY_US, ASSUMED_HOST_GBIT_PER_S, ASSUMED_HOST_LATENCY_US = 100.0, 8.0, 50.0


def parse_emulation(text: str) -> ClusterSpec:
    """The star that a text such as `4x200mbit` or `3x1.5gbit` names. Raises `ClusterError`."""
    found = re.fullmatch(r"(\d{1,3})x(.+)", text)
    if not found:
        raise ClusterError(
            f"An emulated cluster is written like 4x200mbit (nodes, then each link's rate), not {text!r}."
        )
    return star_of(int(found[1]), parse_rate(found[2]))


def parse_rate(text: str) -> float:
    """Gbit/s of a rate such as `200mbit` or `1.5gbit`. Raises `ClusterError`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(mbit|gbit)", text)
    if not found or not float(found[1]) > 0:
        raise ClusterError(f"A rate is written like 200mbit or 1.5gbit, in small letters and above zero, not {text!r}.")
    return float(found[1]) / 1000 if found[2] == "mbit" else float(found[1])


def star_of(count: int, rate_gbit_per_s: float, cores: float | None = None) -> ClusterSpec:
    """`count` nodes on one switch, each link of that rate both ways.

    A node has `cores`; without them all of the machine's, which the nodes then share. Raises `ClusterError`.
    """
    if not 1 <= count <= MOST_NODES:
        raise ClusterError(f"An emulated cluster has 1 to {MOST_NODES} nodes, not {count}.")
    each = float(cores or os.cpu_count() or 1)
    return ClusterSpec.star(
        tuple(Node(f"node{index}", f"10.77.0.{index + 1}", each) for index in range(count)),
        link_gbit_per_s=Figure(rate_gbit_per_s, "stated"),
        link_latency_us=Figure(ASSUMED_LINK_LATENCY_US, "assumed"),
        host_gbit_per_s=Figure(ASSUMED_HOST_GBIT_PER_S, "assumed"),
        host_latency_us=Figure(ASSUMED_HOST_LATENCY_US, "assumed"),
    )
