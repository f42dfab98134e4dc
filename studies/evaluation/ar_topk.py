"""Compares the replay's communication times with those that AR-Topk's authors measured.

Tyagi and Swany, "Flexible Communication for Optimal Distributed Learning over Unpredictable Networks", Big Data 2023,
Table VI: eight workers, 1 ms of latency; an all-gather of top-k's values and indices, and a broadcast of the indices
with a ring or a tree all-reduce of the values. Their collectives are a recursive-doubling all-gather, a binomial
broadcast, a ring, and a binomial tree up and down. Here the replay's costs per message and per core are zero.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay import exchange_seconds
from autosync.layout.all_reduce import layout_of
from autosync.layout.exchange import Stage, Transfer
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec, Figure, Node

COLLECTIVES = ("all-gather", "ring", "tree")
WORKERS = 8
LATENCY_MICROSECONDS = 1000.0
NETWORK_ALONE = ReplayCoefficients(
    core_seconds_per_message=0.0,
    core_seconds_per_byte=0.0,
    core_seconds_per_reduced_byte=0.0,
    core_seconds_per_updated_byte=0.0,
    link_overhead=0.0,
)


@dataclass(frozen=True)
class PublishedTiming:
    """A row of the published table."""

    model: str
    parameters: int
    gbit_per_s: float
    ratio: float
    """The share of the model's float32 gradients that top-k sends."""
    milliseconds: tuple[float, float, float]
    """The published times, in the order of `COLLECTIVES`."""


PUBLISHED = tuple(
    PublishedTiming(model, parameters, gbit_per_s, ratio, milliseconds)
    for model, parameters, gbit_per_s, ratio, milliseconds in (
        ("ResNet18", 11_689_512, 10.0, 0.1, (54.0, 35.0, 43.2)),
        ("ResNet18", 11_689_512, 10.0, 0.01, (7.66, 18.1, 12.2)),
        ("ResNet18", 11_689_512, 10.0, 0.001, (3.28, 16.7, 9.0)),
        ("ResNet18", 11_689_512, 1.0, 0.1, (526.3, 194.7, 345.6)),
        ("ResNet18", 11_689_512, 1.0, 0.01, (51.93, 34.1, 41.9)),
        ("ResNet18", 11_689_512, 1.0, 0.001, (8.86, 19.5, 12.8)),
        ("ResNet50", 25_557_032, 10.0, 0.1, (115.1, 52.9, 83.4)),
        ("ResNet50", 25_557_032, 10.0, 0.01, (14.35, 20.3, 15.9)),
        ("ResNet50", 25_557_032, 10.0, 0.001, (4.65, 18.1, 10.0)),
    )
)


def predict_milliseconds(case: PublishedTiming) -> tuple[float, float, float]:
    """Predict the milliseconds of each of `COLLECTIVES`, on an idle cluster of the published rate and latency."""
    spec = _cluster(case.gbit_per_s)
    workers = [str(device) for device in spec.replica_devices]
    topology = Topology(spec, tuple(workers))
    sent = case.ratio * case.parameters * 4

    def milliseconds(stages: Sequence[Stage], size: float) -> float:
        return 1e3 * exchange_seconds(spec, stages, size, NETWORK_ALONE)

    broadcast = milliseconds(_binomial_broadcast(workers), sent)
    ring, tree = (layout_of(algorithm).exchange(topology, 0).push for algorithm in ("ring", "tree"))
    return (
        milliseconds(_recursive_doubling(workers), 2 * sent),
        broadcast + milliseconds(ring, sent),
        broadcast + milliseconds(tree, sent),
    )


def winners_right(cases: Sequence[PublishedTiming] = PUBLISHED) -> int:
    """Return the number of cases in which the fastest collective is also predicted to be the fastest."""
    return sum(_fastest(predict_milliseconds(case)) == _fastest(case.milliseconds) for case in cases)


def median_error(cases: Sequence[PublishedTiming] = PUBLISHED) -> float:
    """Return the median of |predicted / published - 1| over all times."""
    errors = [
        abs(predicted / published - 1)
        for case in cases
        for predicted, published in zip(predict_milliseconds(case), case.milliseconds, strict=True)
    ]
    return statistics.median(errors)


def _fastest(milliseconds: Sequence[float]) -> int:
    return milliseconds.index(min(milliseconds))


def _cluster(gbit_per_s: float) -> ClusterSpec:
    nodes = tuple(Node(f"node{index}", f"10.0.0.{index + 1}", 8.0) for index in range(WORKERS))
    rate, latency, inside = Figure(gbit_per_s, "stated"), Figure(LATENCY_MICROSECONDS, "stated"), Figure(100, "assumed")
    return ClusterSpec.star(nodes, rate, latency, inside, inside)


def _recursive_doubling(workers: Sequence[str]) -> list[Stage]:
    """Return the stages: in round k, each worker and its partner at distance 2^k exchange all data that they have."""
    return [
        Stage(tuple(Transfer(worker, workers[place ^ far], payload=far) for place, worker in enumerate(workers)))
        for far in (1, 2, 4)
    ]


def _binomial_broadcast(workers: Sequence[str]) -> list[Stage]:
    """Return the stages: in round k, each of the first 2^k workers sends to a worker that has no data yet."""
    return [
        Stage(tuple(Transfer(workers[place], workers[place + far], payload=1.0) for place in range(far)))
        for far in (1, 2, 4)
    ]
