"""Analyses of records: noise, hits, quality of predictions, importance of factors, and payback of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosync.report.findings import Findings, payback_of
from autosync.report.importance import FEWEST, Factor, Importance, factors_of, importance_of
from autosync.report.sections.cluster import transfers_over
from autosync.runs import Run
from autosync.spec import (
    AllReduce,
    Cast,
    Figure,
    ParameterServer,
    Partition,
    RuntimeRecord,
    Strategy,
    Synchronizer,
    VariableStrategy,
)
from autosync.stats.accuracy import quality_of
from autosync.stats.estimate import share_of
from autosync.stats.hits import hit_rates, is_hit, yardstick_of
from autosync.stats.noise import noise_of
from tests import cases
from tests.runs.examples import search_records

MODEL, CLUSTER = cases.mlp_model(), cases.star_cluster(2)
REPLICAS = tuple(map(str, CLUSTER.replica_devices))
SERVERS = tuple(map(str, CLUSTER.server_devices))


def timed(seconds: float, spread: float = 0.01, steps: int = 40, **changes: object) -> RuntimeRecord:
    """The first baseline's record, with evenly spread log step seconds."""
    ladder = np.linspace(-spread, spread, steps)
    made = replace(search_records()[0], step_seconds=tuple(float(seconds * math.exp(offset)) for offset in ladder))
    return replace(made, **changes)  # type: ignore[arg-type]


def test_noise_within_trials_is_the_deviation_of_their_log_steps() -> None:
    noise = noise_of([timed(0.1, 0.02), timed(0.2, 0.02)], [])
    assert noise.within == pytest.approx(np.linspace(-0.02, 0.02, 40).std(ddof=1))
    assert (noise.trials, noise.between, noise.interval) == (2, None, None)


def test_noise_between_trials_is_found_again_and_its_interval_holds_it() -> None:
    """There are 38 turns with a deviation of 0.1, which the 95 % interval contains for this seed."""
    generator = np.random.default_rng(4)
    strategies = [record.strategy for record in search_records()[:2]]
    turns = [
        timed(0.1 * math.exp(0.1 * generator.standard_normal()), 0.0, strategy=strategy)
        for strategy in strategies
        for _ in range(20)
    ]
    noise = noise_of([], turns)
    assert noise.between is not None
    assert noise.interval is not None
    assert noise.between == pytest.approx(0.1, rel=0.25)
    assert noise.interval[0] < 0.1 < noise.interval[1]
    assert (noise.strategies, noise.timings) == (2, 40)


def test_a_hit_is_beyond_two_standard_errors_of_the_difference() -> None:
    baseline, noise = timed(0.1), noise_of([], [])
    yardstick = yardstick_of([baseline], baseline.strategy.digest, noise)
    assert yardstick is not None
    assert yardstick.seconds == pytest.approx(0.1)
    threshold = 2 * math.hypot(yardstick.error, yardstick.error)
    assert is_hit(timed(0.1 * math.exp(-threshold * 1.05)), yardstick, noise)
    assert not is_hit(timed(0.1 * math.exp(-threshold * 0.95)), yardstick, noise)
    stopped = replace(timed(0.01), outcome="stopped", reason="slow")
    assert not is_hit(stopped, yardstick, noise)


def test_noise_between_trials_makes_hits_rarer() -> None:
    baseline = timed(0.1)
    turns = [timed(0.1 * factor) for factor in (0.8, 1.0, 1.2, 1.0)]
    quiet, noisy = noise_of([], []), noise_of([], turns)
    for noise, hit in ((quiet, True), (noisy, False)):
        yardstick = yardstick_of(turns, baseline.strategy.digest, noise)
        assert yardstick is not None
        assert yardstick.timings == 4
        assert is_hit(timed(0.09), yardstick, noise) is hit


def test_noise_between_trials_holds_that_within_them() -> None:
    """A trial's error is the greater of the two errors, not their sum."""
    turns = [timed(0.1 * factor, 0.03) for factor in (0.95, 1.0, 1.05, 1.0)]
    baseline, noise = turns[1], noise_of([], turns)
    yardstick = yardstick_of(turns, baseline.strategy.digest, noise)
    assert yardstick is not None
    assert noise.between is not None
    threshold = 2 * math.hypot(noise.between, noise.between / 2)
    assert is_hit(timed(yardstick.seconds * math.exp(-threshold * 1.02), 0.03), yardstick, noise)
    assert not is_hit(timed(yardstick.seconds * math.exp(-threshold * 0.98), 0.03), yardstick, noise)
    assert not is_hit(timed(yardstick.seconds * math.exp(-threshold * 1.02), 0.5), yardstick, noise)


@pytest.mark.parametrize(("first", "finals_are", "hit"), [(1.0, 1.3, False), (1.3, 1.0, False), (1.9, 1.9, True)])
def test_a_hit_beats_the_baseline_as_timed_in_the_search_and_in_the_finals(
    first: float, finals_are: float, hit: bool
) -> None:
    """All searched trials take 1: they are no hits if the machine was only slower when the baseline was timed."""
    baseline, *others = (replace(record, run="one") for record in search_records()[:8])
    searched = [replace(other, purpose="search", step_seconds=baseline.step_seconds) for other in others]
    slower = tuple(finals_are * seconds for seconds in baseline.step_seconds)
    baseline = replace(baseline, step_seconds=tuple(first * seconds for seconds in baseline.step_seconds))
    finals = [replace(baseline, purpose="remeasure", step_seconds=slower) for _ in range(6)]
    document = {"name": "one", "cluster": baseline.cluster.to_json()}
    findings = Findings(Run(Path("one"), document, records=(baseline, *searched, *finals)))
    assert findings.yardstick is not None
    assert (len(findings.points), findings.noise.timings) == (8, 7)
    assert {point.hit for point in findings.points if point.is_searched} == {hit}


def test_a_baseline_that_was_not_timed_is_no_yardstick() -> None:
    assert yardstick_of([], None, noise_of([], [])) is None


def test_rounds_of_hits_cover_every_searched_trial_once() -> None:
    numbered = [(number, number % 3 == 0) for number in range(12, 12 + 37)]
    rates = hit_rates(numbered)
    assert sum(rate.trials for rate in rates) == 37
    assert sum(rate.share.value * rate.trials for rate in rates) == pytest.approx(sum(hit for _, hit in numbered))
    assert (rates[0].first, rates[-1].last) == (12, 48)
    assert min(rate.trials for rate in rates) >= 5
    assert len(hit_rates([(1, True)])) == 1
    assert len(hit_rates([(n, False) for n in range(1000)])) <= 12


def test_wilsons_interval_is_the_published_one() -> None:
    """1 of 10: 0.0179 to 0.4042 (formula by Newcombe 1998; computed by hand)."""
    share = share_of(1, 10)
    assert (share.low, share.high) == pytest.approx((0.01787, 0.40415), abs=1e-4)


def predicted(pairs: Sequence[tuple[float, float]]) -> list[RuntimeRecord]:
    return [replace(timed(measured, 0.0), predicted_seconds=predicted) for predicted, measured in pairs]


def test_predictions_are_judged_by_error_and_by_order() -> None:
    quality = quality_of(predicted([(0.11, 0.1), (0.2, 0.2), (0.2, 0.4)]), np.random.default_rng(0))
    assert quality is not None
    assert quality.mape.value == pytest.approx((0.1 + 0.0 + 0.5) / 3)
    assert quality.pairwise.value == pytest.approx((1 + 1 + 0.5) / 3)
    assert quality.mape.low <= quality.mape.value <= quality.mape.high
    assert quality_of(predicted([(0.1, 0.1)] * 2), np.random.default_rng(0)) is None


def test_predictions_of_strategies_that_take_equally_long_have_no_order() -> None:
    quality = quality_of(predicted([(0.1, 0.2), (0.2, 0.2), (0.3, 0.2)]), np.random.default_rng(0))
    assert quality is not None
    assert math.isnan(quality.pairwise.value)


def strategy(*synchronizers: Synchronizer, cut: int = 0) -> Strategy:
    """A strategy for the perceptron's three kernels; biases go with their kernels, and the second kernel may be cut."""
    decisions = []
    for index, variable in enumerate(MODEL.variables):
        synchronizer = synchronizers[index // 2]
        if cut and variable.name == "dense_1/kernel":
            decisions.append(VariableStrategy(variable.name, (synchronizer,) * cut, Partition(0, cut)))
        else:
            decisions.append(VariableStrategy(variable.name, (synchronizer,)))
    return Strategy(REPLICAS, tuple(decisions))


def test_factors_are_shares_of_bytes_and_counts() -> None:
    server = ParameterServer(SERVERS[0], local_copy=True)
    strategies = [
        strategy(AllReduce(0), AllReduce(1, "tree"), server),
        strategy(server, server, server, cut=4),
        strategy(*[AllReduce(0, compressor=Cast("bf16"))] * 3),
    ]
    factors = {factor.name: factor.values[:, 0].tolist() for factor in factors_of(strategies, MODEL)}
    sizes = [variable.bytes for variable in MODEL.variables]
    last = (sizes[4] + sizes[5]) / sum(sizes)
    assert factors["all-reduced bytes"] == pytest.approx([1 - last, 0.0, 1.0])
    assert factors["number of buckets"] == pytest.approx([math.log1p(2), 0.0, math.log1p(1)])
    assert factors["busiest server"] == pytest.approx([last, 1.0, 0.0])
    assert factors["cut variables"] == pytest.approx([0.0, sizes[2] / sum(sizes), 0.0])
    assert factors["local copies"] == pytest.approx([last, 1.0, 0.0])
    assert factors["compressed bytes"] == pytest.approx([0.0, 0.0, 1.0])
    assert "gathered rows" not in factors, "nothing is sparse here"
    assert factors_of(strategies[:1], MODEL) == []


def importances(effect: float, count: int = 80) -> dict[str, Importance]:
    """Importances of two factors; the first changes log step time by `effect` over its range, and noise adds 0.1."""
    generator = np.random.default_rng(11)
    values = generator.random((count, 2))
    seconds = np.exp(effect * values[:, 0] + 0.1 * generator.standard_normal(count))
    factors = [Factor(name, "", values[:, [at]]) for at, name in enumerate(("drives", "idles"))]
    return {
        importance.factor: importance
        for importance in importance_of(factors, seconds.tolist(), np.random.default_rng(0))
    }


def test_a_factor_that_drives_step_time_is_found_and_one_that_does_not_is_not() -> None:
    by_factor = importances(effect=1.0)
    assert by_factor["drives"].is_beyond_chance
    assert by_factor["drives"].share > 0.75
    assert by_factor["drives"].low <= by_factor["drives"].share <= by_factor["drives"].high
    assert by_factor["drives"].direction is not None
    assert by_factor["drives"].direction > 0.8
    assert not by_factor["idles"].is_beyond_chance
    assert by_factor["idles"].share < 0.1
    assert next(iter(by_factor)) == "drives", "the most important comes first"


def test_without_an_effect_no_factor_is_beyond_chance() -> None:
    assert [importance for importance in importances(effect=0.0).values() if importance.is_beyond_chance] == []


def test_factors_that_say_the_same_share_what_they_explain() -> None:
    generator = np.random.default_rng(2)
    values = generator.random((60, 1))
    twins = [Factor(name, "", values) for name in ("one", "other")]
    by_twin = importance_of(twins, np.exp(values[:, 0]).tolist(), np.random.default_rng(0))
    assert [importance.share for importance in by_twin] == pytest.approx([0.5, 0.5], abs=0.02)


def test_shares_add_up_to_what_all_explain_together() -> None:
    by_factor = importances(effect=0.5)
    assert 0.0 < sum(importance.share for importance in by_factor.values()) <= 1.0


def test_a_factor_with_its_best_in_the_middle_is_found() -> None:
    generator = np.random.default_rng(5)
    values = generator.random((60, 1))
    seconds = np.exp((values[:, 0] - 0.5) ** 2 * 8)
    (importance,) = importance_of([Factor("middle", "", values)], seconds.tolist(), np.random.default_rng(0))
    assert importance.share > 0.9
    assert abs(importance.direction or 0.0) < 0.5


def test_of_few_strategies_nothing_is_said() -> None:
    assert importances(1.0, count=FEWEST - 1) == {}


def test_a_search_has_paid_for_itself_once_the_saved_time_is_its_own() -> None:
    verdict = {"beyond_noise": True, "speedup": 2.0, "speedup_interval": [1.25, 3.0]}
    payback = payback_of(verdict, search_seconds=60.0, baseline_seconds=0.2)
    assert payback is not None
    assert payback.saved_seconds == pytest.approx(0.1)
    assert payback.steps == pytest.approx(600)
    assert payback.latest == pytest.approx(1500)
    assert payback.training_seconds == pytest.approx(60.0)
    assert payback_of(verdict | {"beyond_noise": False}, 60.0, 0.2) is None


def test_single_transfers_are_those_of_the_largest_messages_that_crossed_the_link() -> None:
    by_ends = {(link.source, link.target): link for link in CLUSTER.links}
    up, down = by_ends["node0", "switch"], by_ends["switch", "node0"]
    probe = {
        "probes": [
            {"flows": [{"source": "node0", "target": "node1"}], "fills": None, "bytes": [10, 1e6, 1e6],
             "seconds": [9.0, 0.04, 0.05]},
            {"flows": [{"source": "node1", "target": "node0"}] * 2, "fills": ["switch", "node0"],
             "bytes": [2e6], "seconds": [0.1]},
        ]
    }  # fmt: skip
    assert transfers_over(up, CLUSTER, probe) == pytest.approx((2, 0.16, 0.2))
    assert transfers_over(down, CLUSTER, probe) == pytest.approx((1, 0.16, 0.16))
    assert transfers_over(replace(up, gbit_per_s=Figure(7.0, "stated")), CLUSTER, probe) is None
    assert transfers_over(up, CLUSTER, None) is None
