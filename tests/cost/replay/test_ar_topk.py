"""The communication times that AR-Topk's authors measured, and who wins (Tyagi and Swany 2023, Table VI).

Eight workers, 1 ms of latency; milliseconds of an all-gather of top-k's values and indices, and of a broadcast of the
indices with a ring or a tree all-reduce of the values, at the ratio CR. Their collectives: a recursive-doubling
all-gather, a binomial broadcast, a ring, a binomial tree up and down.
"""

from __future__ import annotations

import math
import statistics

import pytest

from autosync.cost.exchange import Stage, Transfer
from autosync.cost.processes import Processes
from autosync.cost.replay import ReplayCoefficients, exchange_seconds
from autosync.cost.ring import ring_exchange
from autosync.cost.tree import tree_exchange
from autosync.spec import ClusterSpec, Figure, Node

WORKERS = 8
RESNET18, RESNET50 = 11_689_512, 25_557_032
TABLE = [  # parameters, Gbit/s, CR, (all-gather, ring, tree)
    (RESNET18, 10, 0.1, (54.0, 35.0, 43.2)),
    (RESNET18, 10, 0.01, (7.66, 18.1, 12.2)),
    (RESNET18, 10, 0.001, (3.28, 16.7, 9.0)),
    (RESNET18, 1, 0.1, (526.3, 194.7, 345.6)),
    (RESNET18, 1, 0.01, (51.93, 34.1, 41.9)),
    (RESNET18, 1, 0.001, (8.86, 19.5, 12.8)),
    (RESNET50, 10, 0.1, (115.1, 52.9, 83.4)),
    (RESNET50, 10, 0.01, (14.35, 20.3, 15.9)),
    (RESNET50, 10, 0.001, (4.65, 18.1, 10.0)),
]
NETWORK_ALONE = ReplayCoefficients(
    core_seconds_per_message=0.0,
    core_seconds_per_byte=0.0,
    core_seconds_per_reduced_byte=0.0,
    core_seconds_per_updated_byte=0.0,
)


def cluster(gbit_per_s: float) -> ClusterSpec:
    nodes = tuple(Node(f"node{index}", f"10.0.0.{index + 1}", 8.0) for index in range(WORKERS))
    fast = Figure(100.0, "assumed")
    return ClusterSpec.star(nodes, Figure(gbit_per_s, "stated"), Figure(1000.0, "stated"), fast, fast)


def recursive_doubling(workers: list[str]) -> list[Stage]:
    """In round k each exchanges with its partner at distance 2^k all that both have so far."""
    return [
        Stage(tuple(Transfer(each, workers[place ^ far], payload=far) for place, each in enumerate(workers)))
        for far in (1, 2, 4)
    ]


def binomial_broadcast(workers: list[str]) -> list[Stage]:
    """In round k the first 2^k each send to one that has nothing yet."""
    return [
        Stage(tuple(Transfer(workers[place], workers[place + far], payload=1.0) for place in range(far)))
        for far in (1, 2, 4)
    ]


def predicted_milliseconds(parameters: int, gbit_per_s: float, ratio: float) -> tuple[float, float, float]:
    spec = cluster(gbit_per_s)
    workers, processes = [str(device) for device in spec.replica_devices], Processes.of_cluster(spec)
    sent = ratio * parameters * 4

    def seconds(stages: list[Stage], size: float) -> float:
        return exchange_seconds(spec, stages, size, NETWORK_ALONE)

    broadcast = seconds(binomial_broadcast(workers), sent)
    ring, tree = (exchange(workers, processes, 0).push for exchange in (ring_exchange, tree_exchange))
    return (
        1e3 * seconds(recursive_doubling(workers), 2 * sent),
        1e3 * (broadcast + seconds(list(ring), sent)),
        1e3 * (broadcast + seconds(list(tree), sent)),
    )


@pytest.mark.parametrize(("parameters", "gbit_per_s", "ratio", "measured"), TABLE)
def test_the_collective_that_won_is_predicted_to_win(
    parameters: int, gbit_per_s: float, ratio: float, measured: tuple[float, ...]
) -> None:
    predicted = predicted_milliseconds(parameters, gbit_per_s, ratio)
    assert predicted.index(min(predicted)) == measured.index(min(measured))


def test_measured_times_are_predicted_with_a_median_error_of_three_percent() -> None:
    errors = []
    for *case, measured in TABLE:
        found = predicted_milliseconds(*case)
        errors += [abs(math.log(each / truth)) for each, truth in zip(found, measured, strict=True)]
    assert len(errors) == 27
    assert statistics.median(errors) <= 0.03
    assert max(errors) <= 0.12


def test_the_closed_forms_of_the_paper_are_what_replays_of_its_collectives_take() -> None:
    alpha, beta, sent, log = 1e-3, 8e-9, 0.1 * RESNET18 * 4, 3
    all_gather = log * alpha + 2 * sent * beta * (WORKERS - 1)
    ring = alpha * (2 * (WORKERS - 1) + log) + sent * beta * (2 * (WORKERS - 1) / WORKERS + log)
    tree = 3 * alpha * log + 3 * sent * beta * log
    found = predicted_milliseconds(RESNET18, 1.0, 0.1)
    assert found == pytest.approx([1e3 * each for each in (all_gather, ring, tree)], rel=1e-9)
