"""From samples of probes to figures: seconds a byte, links' rates, and latencies split over routes."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from autosync.spec import ClusterSpec
from trials.probe.flows import Ends, Probe, ends_of, links_crossed

__all__ = ["Sample", "link_latencies_us", "link_rates_gbit_per_s", "seconds_a_byte"]

LARGE = 0.45
"""Share of the largest message from which on others count as large; halves are rounded to whole elements of flows."""
AS_FULL = 0.9
"""Share of its largest throughput from which on a link was as full, but for noise."""
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

    Whatever else the machines do only lengthens a time, so the shortest is the cleanest. Smaller messages say little:
    shapers let a burst pass at line speed, so that the time of a message is no line through 0.
    """
    largest = max(each.probe_bytes for each in samples)
    full = min((each for each in samples if each.probe_bytes == largest), key=lambda each: each.seconds)
    halves = [each for each in samples if LARGE * largest <= each.probe_bytes < 0.9 * largest]
    half = min(halves, key=lambda each: each.seconds / each.probe_bytes)
    slope = (full.seconds - half.seconds) / (full.probe_bytes - half.probe_bytes)
    # Noise can make the slope of too short times absurd; what a whole message took bounds it on either side.
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
