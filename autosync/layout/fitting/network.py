"""The nodes of an all-reduce, and the links that a message between two nodes loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from autosync.spec import ClusterSpec

Pair: TypeAlias = tuple[int, int]
"""(sender, receiver), as numbers of nodes."""

ALIKE = 1.1
"""Rates up to this multiple of the lowest rate of a group count as equal, so that probing noise splits no links."""


@final
@dataclass(frozen=True)
class LinkNetwork:
    """`nodes` by name, `links` by their ends; a byte takes `seconds[l]` on link l; `routes[u, v]` are the links from u
    to v.

    Loopbacks are left out, because trees do not depend on traffic inside a node.
    """

    nodes: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    seconds: tuple[float, ...]
    routes: Mapping[Pair, tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def byte_seconds(self) -> dict[tuple[str, str], float]:
        """Seconds a byte on each link, by its ends."""
        return dict(zip(self.links, self.seconds, strict=True))

    @classmethod
    def among(cls, cluster: ClusterSpec, nodes: Sequence[str], evened: bool = False) -> LinkNetwork:
        """The network of these nodes. With `evened`, links with about equal rates get the mean of these rates."""
        numbers: dict[tuple[str, str], int] = {}
        rates: list[float] = []
        routes: dict[Pair, tuple[int, ...]] = {}
        for u, source in enumerate(nodes):
            for v, target in enumerate(nodes):
                if u == v:
                    continue
                route = cluster.route(source, target)
                for link in route:
                    if (link.source, link.target) not in numbers:
                        numbers[link.source, link.target] = len(rates)
                        rates.append(link.bytes_per_second)
                routes[u, v] = tuple(numbers[link.source, link.target] for link in route)
        return cls(
            tuple(nodes), tuple(numbers), tuple(1 / rate for rate in (_even_out(rates) if evened else rates)), routes
        )


def _even_out(rates: Sequence[float]) -> list[float]:
    """Replace each rate by the mean of the rates about equal to it, in three digits."""
    groups: list[list[float]] = []
    for rate in sorted(rates):
        if groups and rate <= ALIKE * groups[-1][0]:
            groups[-1].append(rate)
        else:
            groups.append([rate])
    mean = {rate: float(f"{sum(group) / len(group):.3g}") for group in groups for rate in group}
    return [mean[rate] for rate in rates]
