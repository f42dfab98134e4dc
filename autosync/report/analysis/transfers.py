"""How much single transfers differed when a link was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from autosync.spec import ClusterSpec, Link

__all__ = ["Transfers", "transfers_over"]


class Transfers(NamedTuple):
    """The slowest's and the fastest's rate of `several` transfers of the largest messages over a link."""

    several: int
    slowest_gbit_per_s: float
    fastest_gbit_per_s: float


def transfers_over(link: Link, cluster: ClusterSpec, probe: Mapping[str, Any] | None) -> Transfers | None:
    """The transfers in a run's `probe.json` of which all bytes crossed the link; None when there were none."""
    rates = [rate for each in (probe or {}).get("probes", ()) if _crosses(each, link, cluster) for rate in _rates(each)]
    return Transfers(len(rates), min(rates), max(rates)) if rates else None


def _crosses(probe: Mapping[str, Any], link: Link, cluster: ClusterSpec) -> bool:
    if probe.get("fills"):
        return tuple(probe["fills"]) == (link.source, link.target)
    nodes = {node.name for node in cluster.nodes}
    ends = [(flow["source"], flow["target"]) for flow in probe["flows"]]
    return len(ends) == 1 and set(ends[0]) <= nodes and link in cluster.route(*ends[0])


def _rates(probe: Mapping[str, Any]) -> Iterator[float]:
    largest = max(probe["bytes"])
    for size, seconds in zip(probe["bytes"], probe["seconds"], strict=True):
        if size == largest:
            yield 8e-9 * size / seconds
