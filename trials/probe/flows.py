"""Probes, which send data along several routes at once, and the link rates (Gbit/s) and latencies computed from
them.
"""

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
"""The source and the target of a link, which identify the link in a cluster."""


@dataclass(frozen=True)
class ProbeFlow:
    """Data from one node to another; within a node it goes by the loopback."""

    source: str
    target: str
    weight: float = 1.0
    """The flow's part of the data of its probe, relative to the weights of the other flows."""

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True)
class Probe:
    """Flows that start at the same time; `fills` is the link they should fill, None for a plain pair."""

    flows: tuple[ProbeFlow, ...]
    fills: Ends | None = None

    def __str__(self) -> str:
        return ", ".join(map(str, self.flows))


def ends_of(link: Link) -> Ends:
    return link.source, link.target


def links_crossed(cluster: ClusterSpec, flows: Iterable[ProbeFlow]) -> dict[Ends, float]:
    """Return the links that `flows` cross, with each link's share of all data.

    Shares add up to more than 1 on longer routes.
    """
    flows = tuple(flows)
    whole = sum(flow.weight for flow in flows)
    shares: dict[Ends, float] = {}
    for flow in flows:
        for link in cluster.route(flow.source, flow.target):
            shares[ends_of(link)] = shares.get(ends_of(link), 0.0) + flow.weight / whole
    return shares


Key = TypeVar("Key", bound=Hashable)


def fair_rates(routes: Sequence[Sequence[Key]], capacities: Mapping[Key, float]) -> list[float]:
    """Return the max-min fair rate of each flow; `routes` are the links it crosses. Links without a capacity do not
    limit.

    Unlimited flows get the largest rate of the other flows, or 1 if there is none.
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
    flow_rates = [rates.get(flow, unlimited) for flow in range(len(routes))]
    return [max(rate, math.ulp(unlimited)) for rate in flow_rates]


LARGE = 0.45
"""Messages of at least this share of the largest message count as large; halves are rounded to whole elements of
flows.
"""
SMALL = 0.25
"""Messages of at most this share of the largest message count as small."""
AS_FULL = 0.9
"""A link was full, except for noise, at throughputs of at least this share of its largest throughput."""
FASTER = 1.05
"""The largest factor by which the rate between the half and the largest message may exceed the rate between a small and
the largest message.
"""
TOWARDS_EQUAL = 1e-3
"""Weight of equal latencies for the links of a route, where the measurements do not decide."""
LEAST_LATENCY_US = 0.1


@dataclass(frozen=True)
class ProbeSample:
    """The seconds that a probe took to send `probe_bytes`, all flows together."""

    probe_bytes: int
    seconds: float


def seconds_a_byte(samples: Sequence[ProbeSample]) -> float:
    """Return beta: the slope between the shortest time of the largest messages and that of messages half as large.

    Other work on the machines only lengthens a time, so the shortest is the cleanest. If every half was disturbed, the
    slope is too small, and one such probe would turn a link of 1 Gbit/s into one of 1.2. The slope from small messages
    is therefore a lower bound. Other work changes that slope less, and it is too small already, because shapers let a
    burst pass at once.
    """
    largest = max(sample.probe_bytes for sample in samples)
    full = min((sample for sample in samples if sample.probe_bytes == largest), key=lambda sample: sample.seconds)
    halves = [sample for sample in samples if LARGE * largest <= sample.probe_bytes < 0.9 * largest]
    half = min(halves, key=lambda sample: sample.seconds / sample.probe_bytes)
    slope = (full.seconds - half.seconds) / (full.probe_bytes - half.probe_bytes)
    small = [sample for sample in samples if sample.probe_bytes <= SMALL * largest]
    overall = [(full.seconds - sample.seconds) / (full.probe_bytes - sample.probe_bytes) for sample in small]
    slope = max([slope, *(beta / FASTER for beta in overall)])
    # Noise can make the slope between too short times absurd; the time of the whole message bounds the slope on both
    # sides.
    whole = full.seconds / full.probe_bytes
    return min(max(slope, whole / 4), whole * 2)


def link_rates_gbit_per_s(cluster: ClusterSpec, betas: Mapping[Probe, float]) -> dict[Ends, float]:
    """Return rates of the links that the probes crossed; `betas` are the seconds a byte of each probe.

    An observed throughput is a lower bound of a link's rate, and the largest throughput is the rate if a probe filled
    the link. The largest of several noisy figures is too large, so the median of the figures near it is taken.
    """
    seen: dict[Ends, list[float]] = {}
    for probe, beta in betas.items():
        for ends, share in links_crossed(cluster, probe.flows).items():
            seen.setdefault(ends, []).append(share * 8e-9 / beta)
    return {
        ends: statistics.median(rate for rate in rates if rate >= AS_FULL * max(rates)) for ends, rates in seen.items()
    }


def link_latencies_us(cluster: ClusterSpec, alphas_us: Mapping[tuple[str, str], float]) -> dict[Ends, float]:
    """Return latencies of the links on the routes between the given nodes that add up to the pairs' latencies.

    Non-negative least squares. If the pairs do not determine how a route's latency is split, its links get similar
    latencies.
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
