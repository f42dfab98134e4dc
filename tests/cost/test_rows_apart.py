"""Predictions for tied tables whose looked-up rows are sent apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosync.cost import (
    AnalyticSimulator,
    Coefficients,
    Replay,
    VirtualClock,
    bottleneck,
    breakdown,
    step_bound,
    traffic,
)
from autosync.layout.apart import apart, split_model
from autosync.spec import AllReduce, ClusterSpec, ModelSpec, Pace, Partition, Strategy, VariableStrategy
from tests.cases import racks, tied_model

TABLE = "table"
MODEL = tied_model(rows=40_000, touched=300.0)


def paced(seconds: float = 0.1) -> ClusterSpec:
    cluster = racks(2, 2)
    return replace(cluster, nodes=tuple(replace(node, pace=Pace(0.0, seconds, "recorded")) for node in cluster.nodes))


CLUSTER = paced()
REPLICAS = tuple(map(str, CLUSTER.replica_devices))


def small_buckets(overlaps: bool = False, parts: int = 8) -> Strategy:
    """Each part of the table in a bucket of its own."""
    shards = tuple(AllReduce(1 + part, "rabenseifner") for part in range(parts))
    table = VariableStrategy(TABLE, shards, Partition(0, parts))
    others = tuple(VariableStrategy(name, (AllReduce(0, "rabenseifner"),)) for name in ("hidden", "bias"))
    return Strategy(REPLICAS, (table, *others), overlap_next_forward=overlaps)


def with_rows_apart(strategy: Strategy) -> Strategy:
    variables = [replace(decision, rows_apart=decision.variable == TABLE) for decision in strategy.variables]
    return replace(strategy, variables=tuple(variables))


@pytest.mark.parametrize("simulator", [Replay(), AnalyticSimulator()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("overlaps", [False, True], ids=["barrier", "free"])
def test_a_batch_predicts_what_the_two_variables_would_take(simulator: Replay, overlaps: bool) -> None:
    whole, split = small_buckets(overlaps), with_rows_apart(small_buckets(overlaps))
    both = simulator.predict(MODEL, CLUSTER, [whole, split, whole])
    model, strategy = apart(MODEL, split)
    assert both[1] == pytest.approx(simulator.predict(model, CLUSTER, [strategy])[0])
    assert both[0] == both[2] == pytest.approx(simulator.predict(MODEL, CLUSTER, [whole])[0])
    assert both[1] < both[0]


def test_a_bound_holds_for_both_ways() -> None:
    for overlaps in (False, True):
        bound = step_bound(MODEL, CLUSTER, overlaps)
        together = replace(MODEL, profile=replace(MODEL.profile, uses=None))  # type: ignore[arg-type]
        ways = [step_bound(model, CLUSTER, overlaps) for model in (together, split_model(MODEL, (TABLE,)))]
        assert bound == min(ways, key=lambda way: way.seconds)
        assert bound.seconds < ways[0].seconds
        for strategy in (small_buckets(overlaps), with_rows_apart(small_buckets(overlaps))):
            assert np.exp(Replay().predict(MODEL, CLUSTER, [strategy])[0]) >= bound.seconds


def test_traffic_has_the_gathered_rows_beside_the_table() -> None:
    whole, split = (traffic(MODEL, CLUSTER, way) for way in (small_buckets(), with_rows_apart(small_buckets())))
    rows = traffic(*_only_rows())
    np.testing.assert_allclose(split.bytes, whole.bytes + rows.bytes)


def _only_rows() -> tuple[ModelSpec, ClusterSpec, Strategy]:
    split = split_model(MODEL, (TABLE,))
    rows = replace(split.variables[1], ready_order=0)
    model = ModelSpec("rows", 8, "Adam", 2, (rows,))
    return model, CLUSTER, Strategy(REPLICAS, (VariableStrategy(rows.name, (AllReduce(0),)),))


def test_a_bottleneck_counts_the_rows_with_their_table() -> None:
    strategy = with_rows_apart(small_buckets())
    found = bottleneck(MODEL, CLUSTER, strategy, Coefficients())
    assert set(found.shares) <= set(MODEL.by_name)
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert breakdown(MODEL, CLUSTER, strategy, Coefficients()).links.max() > 0


def test_figures_overlap_and_virtual_time_have_the_rows_by_themselves() -> None:
    strategy, replay = with_rows_apart(small_buckets()), Replay()
    figures = replay.figures(MODEL, CLUSTER, strategy).variables
    names = [variable.name for variable in split_model(MODEL, (TABLE,)).variables]
    ready = dict(zip(names, figures.ready, strict=True))
    assert ready[TABLE] < ready["hidden"] < ready["table (rows)"]
    last = replay.overlap(MODEL, CLUSTER, strategy).last
    assert last is not None
    sent = {name for _, spans in replay.links(MODEL, CLUSTER, strategy) for span in spans for name in span.variables}
    assert sent == set(names)
    seconds = [VirtualClock.of(MODEL, CLUSTER, way).step_seconds(0, 3).mean() for way in (small_buckets(), strategy)]
    assert seconds[1] < seconds[0]
