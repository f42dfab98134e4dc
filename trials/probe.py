"""Probing: replace a cluster's assumed links by what a few timed transfers say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from autosync.spec import ClusterSpec, Figure, Link

__all__ = ["Transfer", "probed"]


class Transfer(Protocol):
    """Alpha and beta of one direction between two devices."""

    @property
    def latency_seconds(self) -> float: ...

    @property
    def bytes_per_second(self) -> float: ...


def probed(cluster: ClusterSpec, time_transfer: Callable[[str, str], Transfer]) -> ClusterSpec:
    """`cluster` with measured loopbacks and links; `time_transfer(source device, target device)` does the timing.

    Between nodes each is timed to the next one in a ring, one pair after the other, so that no two probes share a
    link: the figure is that of the slower of the sender's uplink and the receiver's downlink. A node with a single
    worker has no loopback traffic between workers, and keeps its assumed figure.
    """
    measured: dict[tuple[str, str], Transfer] = {}
    for node in cluster.nodes:
        if node.workers > 1:
            first, second = node.cpu_devices[:2]
            measured[node.name, node.name] = time_transfer(str(first), str(second))
    if len(cluster.nodes) > 1:
        for node, following in zip(cluster.nodes, (*cluster.nodes[1:], cluster.nodes[0]), strict=True):
            timed = time_transfer(str(node.cpu_devices[0]), str(following.cpu_devices[0]))
            measured[node.name, "switch"] = timed
            measured["switch", following.name] = timed
    return replace(
        cluster, links=tuple(_with(link, measured.get((link.source, link.target))) for link in cluster.links)
    )


def _with(link: Link, timed: Transfer | None) -> Link:
    if timed is None:
        return link
    share = 1.0 if link.source == link.target else 0.5  # two links make a route through the switch
    return replace(
        link,
        gbit_per_s=Figure(timed.bytes_per_second * 8e-9, "measured"),
        latency_us=Figure(timed.latency_seconds * 1e6 * share, "measured"),
    )
