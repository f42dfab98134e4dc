"""What a probe is: data that flows along several routes at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autosync.spec import ClusterSpec, Link

__all__ = ["Ends", "Flow", "Probe", "ends_of", "links_crossed"]

Ends = tuple[str, str]
"""The source and the target of a link, which tell it from a cluster's other links."""


@dataclass(frozen=True)
class Flow:
    """Data from one node to another, `weight` parts of all that the probe sends; within a node by its loopback."""

    source: str
    target: str
    weight: float = 1.0

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True)
class Probe:
    """Flows that start at the same time; `fills` is the link they are meant to fill, None for a plain pair."""

    flows: tuple[Flow, ...]
    fills: Ends | None = None

    def __str__(self) -> str:
        return ", ".join(map(str, self.flows))


def ends_of(link: Link) -> Ends:
    return link.source, link.target


def links_crossed(cluster: ClusterSpec, flows: Iterable[Flow]) -> dict[Ends, float]:
    """The links that `flows` cross, each with its share of all that is sent (shares add up to more than 1)."""
    flows = tuple(flows)
    whole = sum(flow.weight for flow in flows)
    shares: dict[Ends, float] = {}
    for flow in flows:
        for link in cluster.route(flow.source, flow.target):
            shares[ends_of(link)] = shares.get(ends_of(link), 0.0) + flow.weight / whole
    return shares
