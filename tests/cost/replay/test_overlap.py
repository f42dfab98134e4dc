"""A replayed period without a barrier agrees with timelines computed by hand, and stays above its lower bound."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator, Replay, VirtualClock, step_bound
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay import step_of
from autosync.cost.replay.places import Pattern
from autosync.cost.replay.queues import Tasks, replay_tasks
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    ModelProfile,
    ModelSpec,
    Pace,
    Spread,
    Strategy,
    Variable,
    VariableStrategy,
)
from tests.cases import racks, star_cluster, uneven_cluster
from tests.space.samples import sampled

FREE = ReplayCoefficients(*[0.0] * 7, core_seconds_per_shard=0.0, overlap=1.0, link_overhead=0.0)
FORWARD, BACKWARD = 0.1, 0.3
RATE = 25e6
"""Bytes a second of the star cluster's links."""


def model_of(sizes: dict[str, int], ready: dict[str, float], read: dict[str, float] | None) -> ModelSpec:
    """A model of float32 vectors of `sizes` bytes."""
    order = sorted(ready, key=lambda name: ready[name])
    variables = tuple(Variable(name, (size // 4,), "float32", order.index(name)) for name, size in sizes.items())
    return ModelSpec("vectors", 8, "SGD", 0, variables, profile=ModelProfile(FORWARD, BACKWARD, ready, read))


def paced(cluster: ClusterSpec, spread: Spread = Spread()) -> ClusterSpec:  # noqa: B008
    pace = Pace(0.0, FORWARD + BACKWARD, spread=spread)
    return replace(cluster, nodes=tuple(replace(node, pace=pace) for node in cluster.nodes))


TWO = paced(star_cluster(2))


def each_by(model: ModelSpec, cluster: ClusterSpec, algorithm: str = "ring") -> Strategy:
    """Every variable in a bucket of its own, without a barrier."""
    decisions = (
        VariableStrategy(variable.name, (AllReduce(group, algorithm),))
        for group, variable in enumerate(model.variables)
    )
    return Strategy(tuple(map(str, cluster.replica_devices)), tuple(decisions), overlap_next_forward=True)


def toy_period(sizes: dict[str, int], ready: dict[str, float], read: dict[str, float]) -> float:
    """The period of two ranks that exchange variables over one link, always the variable that is read first."""
    left = {name: size / RATE for name, size in sizes.items()}
    begins = {name: BACKWARD * fraction for name, fraction in ready.items()}
    arrived: dict[str, float] = {}
    now = 0.0
    while left:
        waiting = [name for name in left if begins[name] <= now]
        later = min((begins[name] for name in left if begins[name] > now), default=np.inf)
        if not waiting:
            now = later
            continue
        first = min(waiting, key=lambda name: read[name])
        until = min(now + left[first], later)
        left[first] -= until - now
        now = until
        if left[first] < 1e-12:
            arrived[first] = now
            del left[first]
    now, passed = BACKWARD, 0.0
    for name in sorted(read, key=lambda name: read[name]):  # the forward pass waits for each value when it reads it
        now = max(now + FORWARD * (read[name] - passed), arrived[name])
        passed = read[name]
    return now + FORWARD * (1 - passed)


SIZES = {"first": 2_000_000, "second": 4_000_000, "third": 5_000_000}
READY = {"third": 0.25, "second": 0.5, "first": 1.0}


def test_three_variables_over_one_link_take_the_time_computed_by_hand() -> None:
    # Gradients are ready after 75, 150 and 300 ms of the backward pass. The third is on the link from 75 to 150 ms, the
    # second until 300, the first until 380, the second again until 390 and the third until 515. The forward pass reads
    # them at 380, 405 and max(455, 515) ms, and its last 25 ms follow.
    model = model_of(SIZES, READY, {"first": 0.0, "second": 0.25, "third": 0.75})
    strategy = each_by(model, TWO)
    found = step_of(model, TWO, strategy).seconds(FREE)
    assert found == pytest.approx(0.54, abs=0.01)
    # With the barrier the forward pass hides nothing: 100 ms, then sums and values of 200, 160 and 80 ms from 75 ms on.
    barrier = step_of(model, TWO, replace(strategy, overlap_next_forward=False)).seconds(FREE)
    assert barrier == pytest.approx(0.1 + 0.075 + 0.2 + 0.16 + 0.08, abs=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_a_period_is_that_of_two_ranks_with_one_link(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"v{number}" for number in range(draw.choice([3, 5]))]
    sizes = {name: 4 * draw.randrange(1_000, 1_000_000) for name in names}
    ready = dict(
        zip(names, sorted(draw.sample([number / 20 for number in range(1, 20)], len(names) - 1)), strict=False)
    )
    ready[names[-1]] = 1.0
    read = {name: draw.random() for name in names}
    model = model_of(sizes, ready, read)
    found = step_of(model, TWO, each_by(model, TWO)).seconds(FREE)
    assert found == pytest.approx(toy_period(sizes, ready, read), rel=0.03)


def test_unmeasured_reads_mirror_ready_times() -> None:
    mirrored = {name: 1 - fraction for name, fraction in READY.items()}
    seconds = [
        step_of(model, TWO, each_by(model, TWO)).seconds(FREE)
        for model in (model_of(SIZES, READY, None), model_of(SIZES, READY, mirrored))
    ]
    assert seconds[0] == seconds[1]


def test_values_that_are_read_first_go_first() -> None:
    reads = {"first": 0.0, "second": 0.5, "third": 0.9}
    model = model_of(SIZES, READY, reads)
    step = step_of(model, TWO, each_by(model, TWO))
    end = step.timeline(FREE).end
    ends = {
        shipment.variables[0]: end[tasks[-1]]
        for shipment, tasks in zip(step.graph.shipments, step.graph.of_shipment, strict=True)
    }
    assert sorted(ends, key=lambda name: ends[name]) == ["first", "second", "third"]


def test_the_overhead_of_a_step_hides_values() -> None:
    model = model_of(SIZES, READY, dict.fromkeys(SIZES, 0.0))
    step = step_of(model, TWO, each_by(model, TWO))
    assert step.seconds(replace(FREE, step_overhead_seconds=0.1)) == pytest.approx(step.seconds(FREE), abs=1e-9)
    assert step.seconds(replace(FREE, step_overhead_seconds=0.5)) == pytest.approx(0.3 + 0.5 + 0.1, abs=1e-3)


def test_an_urgent_task_overtakes_a_large_one_in_its_line() -> None:
    pattern = Pattern(1, ((0, 0),))

    def ends(urgency: list[int] | None) -> list[float]:
        # A large task is ready at 0, a small one at 1 and another at 2, after tasks at a place of their own.
        apart = Pattern(2, ((1, 1),))
        busy = [[8.0], [1.0], [1.0], [0.0, 1.0], [0.0, 2.0]]
        return replay_tasks(
            Tasks(
                2,
                [pattern, apart],
                [0, 0, 0, 1, 1],
                busy,
                np.zeros(5),
                range(5),
                [0, 0, 0, -1, -1],
                [[], [], [], [1], [2]],
                [0, 1, 1, 0, 0],
                urgency,
            )
        ).end.tolist()

    first_come, urgent_last, urgent_first = ends(None), ends([0, 2, 1, 3, 4]), ends([5, 2, 1, 3, 4])
    assert first_come[:3] == pytest.approx([8.0, 9.0, 10.0])
    assert urgent_last[:3] == pytest.approx([8.0, 10.0, 9.0])
    assert max(urgent_first[1:3]) <= 4.0 + 1e-9
    assert urgent_first[0] == pytest.approx(10.0)


VECTORS = model_of(
    {f"v{number}": 4 * 20_000 * (number + 1) for number in range(6)},
    {f"v{number}": (number + 1) / 6 for number in range(6)},
    {f"v{number}": (5 - number) / 6 for number in range(6)},
)


def without_barrier(strategies: list[Strategy]) -> list[Strategy]:
    return [replace(strategy, overlap_next_forward=True) for strategy in strategies if not strategy.staleness]


@pytest.mark.parametrize("cluster", [star_cluster(4, 0.01), uneven_cluster(), racks(2, 2, uplink_gbit_per_s=0.01)])
def test_no_exact_strategy_is_replayed_in_less_than_the_bound_without_a_barrier(cluster: ClusterSpec) -> None:
    cluster = paced(cluster)
    exact = without_barrier([each for each in sampled(VECTORS, cluster, 40) if not each.changes_statistics])
    assert len(exact) > 15
    bound = step_bound(VECTORS, cluster, overlaps=True).seconds
    assert bound <= min(np.exp(Replay().predict(VECTORS, cluster, exact)))


def test_passes_that_are_alike_are_replayed_apart_as_together() -> None:
    cluster = paced(racks(2, 2), Spread(0.3))
    for algorithm in ("ring", "rabenseifner"):
        strategy = each_by(VECTORS, cluster, algorithm)
        clock = VirtualClock.of(VECTORS, cluster, strategy)
        together = clock.by_phase[0].with_pass_seconds(0.2).seconds(clock.coefficients)
        apart = clock.apart[0].with_separate_passes([0.2] * 4).seconds(clock.coefficients)
        assert apart == pytest.approx(together, rel=0.05)
        assert (clock.step_seconds(0, 5) >= clock.pass_seconds(0, 5).max(axis=1)).all()


def test_figures_of_a_period_count_waits_of_the_forward_pass_as_exposed() -> None:
    model = model_of(SIZES, READY, {"first": 0.0, "second": 0.25, "third": 0.75})
    figures = Replay(FREE).figures(model, TWO, each_by(model, TWO))
    # The forward pass stands still from 300 to 380 ms and from 455 to 515 ms. The link is busy from 75 ms on.
    assert figures.exposed_seconds == pytest.approx(0.08 + 0.06, abs=0.01)
    assert figures.communication_seconds == pytest.approx(0.44, abs=0.01)
    assert figures.compute_seconds == pytest.approx(figures.step_seconds, abs=1e-9)


def test_the_passes_of_a_node_are_in_order_of_time() -> None:
    model = model_of(SIZES, READY, {"first": 0.0, "second": 0.25, "third": 0.75})
    for spans in Replay(FREE).overlap(model, TWO, each_by(model, TWO)).passes.values():
        kinds = [span.kind for span in spans]
        assert kinds == sorted(kinds)  # first the backward pass, then the parts of the next forward pass
        assert len(set(kinds)) == 2
        assert [span.begin for span in spans] == sorted(span.begin for span in spans)


def test_a_traces_forward_pass_has_its_segments() -> None:
    model = model_of(SIZES, READY, {"first": 0.0, "second": 0.25, "third": 0.75})
    cores = replace(FREE, profile_scale=1.0)
    strategy = each_by(model, star_cluster(2))
    events = Replay(cores).trace(model, star_cluster(2), strategy)["traceEvents"]
    starts = {event["args"]["from"] for event in events if event.get("cat") == "forward"}
    assert starts == {0.0, 0.25, 0.75}


@pytest.mark.parametrize("algorithm", ["ring", "rabenseifner"])
def test_the_closed_form_prefers_small_buckets_without_a_barrier_as_the_replay_does(algorithm: str) -> None:
    cluster = paced(racks(2, 2, uplink_gbit_per_s=0.02))
    alone = each_by(VECTORS, cluster, algorithm)
    together = replace(
        alone,
        variables=tuple(VariableStrategy(variable.name, (AllReduce(0, algorithm),)) for variable in VECTORS.variables),
    )
    strategies = [
        replace(strategy, overlap_next_forward=free) for strategy in (alone, together) for free in (True, False)
    ]
    for simulator in (Replay(), AnalyticSimulator()):
        small, small_barrier, large, large_barrier = np.exp(simulator.predict(VECTORS, cluster, strategies))
        assert small < small_barrier
        assert small < large
        assert large <= large_barrier
    reversed_order = AnalyticSimulator().predict(VECTORS, cluster, strategies[::-1])
    assert reversed_order[::-1] == pytest.approx(AnalyticSimulator().predict(VECTORS, cluster, strategies))
