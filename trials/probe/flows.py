"""Probes: data along several routes at once; and the rates (Gbit/s) and latencies of links that they tell."""

import itertools
import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.optimize import nnls

from autosync.spec import ClusterSpec, Link

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


Key = TypeVar("Key", bound=Hashable)


def fair_rates(routes: Sequence[Sequence[Key]], capacities: Mapping[Key, float]) -> list[float]:
    """The rate of each flow; `routes` are the links it crosses. Links without a capacity do not limit.

    Flows that nothing limits get the largest rate that another one has, or 1 when there is none.
    """
    rates: dict[int, float] = {}
    left = dict(capacities)
    while len(rates) < len(routes):
        users: dict[Key, list[int]] = {}
        for flow, route in enumerate(routes):
            if flow not in rates:
                for link in route:
                    if link in left:
                        users.setdefault(link, []).append(flow)
        if not users:
            break
        tightest = min(users, key=lambda link: left[link] / len(users[link]))
        rate = left[tightest] / len(users[tightest])
        for flow in users[tightest]:
            rates[flow] = rate
            for link in routes[flow]:
                if link in left:
                    left[link] = max(left[link] - rate, 0.0)
        del left[tightest]
    unlimited = max(rates.values(), default=1.0)
    found = [rates.get(flow, unlimited) for flow in range(len(routes))]
    return [max(rate, math.ulp(unlimited)) for rate in found]


LARGE = 0.45
"""Share of the largest message from which on others count as large; halves are rounded to whole elements of flows."""
SMALL = 0.25
"""Share of the largest message up to which other messages count as small."""
AS_FULL = 0.9
"""Share of its largest throughput from which on a link was as full, but for noise."""
FASTER = 1.05
"""The most by which the rate from the half to the largest message may exceed that from a small one to the largest."""
TOWARDS_EQUAL = 1e-3
"""Weight of making the links of a route equal, where the measurements leave it open."""
LEAST_LATENCY_US = 0.1


@dataclass(frozen=True)
class Sample:
    """The seconds that a probe took to send `probe_bytes`, all flows together."""

    probe_bytes: int
    seconds: float


def seconds_a_byte(samples: Sequence[Sample]) -> float:
    """Beta: the slope between the shortest time of the largest messages and that of messages half as large.

    Other work on the machines only lengthens a time, so the shortest is the cleanest. If every half was disturbed, the
    slope is too small, and one such probe would turn a link of 1 Gbit/s into one of 1.2. The slope from small messages
    bounds it: other work changes that slope less, and it is too small already, since shapers let a burst pass at once.
    """
    largest = max(each.probe_bytes for each in samples)
    full = min((each for each in samples if each.probe_bytes == largest), key=lambda each: each.seconds)
    halves = [each for each in samples if LARGE * largest <= each.probe_bytes < 0.9 * largest]
    half = min(halves, key=lambda each: each.seconds / each.probe_bytes)
    slope = (full.seconds - half.seconds) / (full.probe_bytes - half.probe_bytes)
    small = [sample for sample in samples if sample.probe_bytes <= SMALL * largest]
    overall = [(full.seconds - sample.seconds) / (full.probe_bytes - sample.probe_bytes) for sample in small]
    slope = max([slope, *(beta / FASTER for beta in overall)])
    # Noise can make the slope of too short times absurd; the time of the whole message bounds it on either side.
    whole = full.seconds / full.probe_bytes
    return min(max(slope, whole / 4), whole * 2)


def link_rates_gbit_per_s(cluster: ClusterSpec, betas: Mapping[Probe, float]) -> dict[Ends, float]:
    """Rates of the links that the probes crossed; `betas` are each probe's seconds a byte.

    A throughput seen is a lower bound of a link's rate, and the largest is the rate if a probe filled the link. The
    largest of several noisy figures is too large: the median of those near it is taken.
    """
    seen: dict[Ends, list[float]] = {}
    for probe, beta in betas.items():
        for ends, share in links_crossed(cluster, probe.flows).items():
            seen.setdefault(ends, []).append(share * 8e-9 / beta)
    return {
        ends: statistics.median(each for each in rates if each >= AS_FULL * max(rates)) for ends, rates in seen.items()
    }


def link_latencies_us(cluster: ClusterSpec, alphas_us: Mapping[tuple[str, str], float]) -> dict[Ends, float]:
    """Latencies of the links on the routes between the given nodes, so that they add up to the pairs' latencies.

    Non-negative least squares. Where the pairs leave open how a route's latency is split, links come out near equal.
    """
    routes = {pair: [ends_of(link) for link in cluster.route(*pair)] for pair in alphas_us}
    columns = {ends: column for column, ends in enumerate(dict.fromkeys(itertools.chain(*routes.values())))}
    if not columns:
        return {}
    crossed = np.zeros((len(routes), len(columns)))
    equal = np.zeros(len(columns))
    for row, (pair, route) in enumerate(routes.items()):
        for ends in route:
            crossed[row, columns[ends]] = 1.0
            equal[columns[ends]] += alphas_us[pair] / len(route)
    equal /= crossed.sum(axis=0)
    weights = np.concatenate([crossed, TOWARDS_EQUAL * np.eye(len(columns))])
    solution, _ = nnls(weights, np.concatenate([list(alphas_us.values()), TOWARDS_EQUAL * equal]))
    return {ends: max(float(solution[column]), LEAST_LATENCY_US) for ends, column in columns.items()}
