"""Records of other runs count by the similarity of their conditions, and less than records of the search itself."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator, Coefficients, TransferSimulator, weight_of
from autosync.simulator import LearnedSimulator
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from tests import cases
from tests.contracts.test_simulator_contract import CLUSTER, MODEL, record
from tests.search.laws import rough_simulator
from tests.space.samples import sampled

LAW = Coefficients(0.02, 3e-10, 2e-13, 4e-4, 4e-9, 1e-9, overlap=0.1)
SLOWER = 3.0


def records(
    count: int, seed: int, factor: float = 1.0, model: ModelSpec = MODEL, cluster: ClusterSpec = CLUSTER
) -> list[RuntimeRecord]:
    """Records under `LAW`, on a machine that takes `factor` times as long."""
    strategies = sampled(model, cluster, count, seed)
    seconds = factor * np.exp(AnalyticSimulator(LAW).predict(model, cluster, strategies))
    plain = [record(strategy, (float(time),) * 5) for strategy, time in zip(strategies, seconds, strict=True)]
    return [replace(timed, model=model, cluster=cluster) for timed in plain]


def level(informed: TransferSimulator, strategies: list[Strategy]) -> float:
    """The ratio of predicted step times to the step times under the law."""
    law = AnalyticSimulator(LAW).predict(MODEL, CLUSTER, strategies)
    return float(np.exp(np.median(informed.predict(MODEL, CLUSTER, strategies) - law)))


def informed(earlier: list[RuntimeRecord]) -> TransferSimulator:
    return TransferSimulator(AnalyticSimulator(), earlier, MODEL, CLUSTER)


def test_a_record_counts_the_less_the_more_about_it_is_different() -> None:
    weights = [weight_of(*same) for same in ((True, True), (True, False), (False, True), (False, False))]
    assert weights == pytest.approx([1 / 2, 1 / 6, 1 / 6, 0.0])


def test_before_the_first_trial_it_has_learned_from_other_runs() -> None:
    made, others = informed(records(20, seed=1)), sampled(MODEL, CLUSTER, 30, seed=2)
    made.fit([])
    assert level(made, others) == pytest.approx(1.0, abs=0.1)
    assert level(informed([]), others) < 0.7


def test_records_of_another_model_or_of_another_cluster_help_too() -> None:
    others = sampled(MODEL, CLUSTER, 30, seed=2)
    for earlier in (records(20, 1, model=cases.ncf_like_model()), records(20, 1, cluster=cases.rack_cluster())):
        made = informed(earlier)
        made.fit([])
        assert abs(np.log(level(made, others))) < abs(np.log(level(informed([]), others)))


def test_the_searchs_records_soon_outweigh_records_from_a_slower_day() -> None:
    others, levels = sampled(MODEL, CLUSTER, 30, seed=2), []
    made = informed(records(30, seed=1, factor=SLOWER))
    for count in (0, 10, 60):
        made.fit(records(count, seed=5))
        levels.append(level(made, others))
    assert levels[0] > 2
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] < 1.3


def test_the_order_of_records_makes_no_difference() -> None:
    ordered, others = records(12, seed=5), sampled(MODEL, CLUSTER, 5)
    shuffled = random.Random(1).sample(ordered, len(ordered))
    first, second = informed(records(5, 1)), informed(records(5, 1))
    first.fit(ordered)
    second.fit(shuffled)
    np.testing.assert_array_equal(first.predict(MODEL, CLUSTER, others), second.predict(MODEL, CLUSTER, others))


def test_weights_stay_with_their_records() -> None:
    timed, others = [*records(6, seed=5), *records(6, seed=6, factor=SLOWER)], sampled(MODEL, CLUSTER, 30, seed=2)
    made = informed([])
    made.fit(timed, [1.0] * 6 + [0.0] * 6)
    light = level(made, others)
    made.fit(timed, [0.0] * 6 + [1.0] * 6)
    assert level(made, others) > 1.5 * light


def test_without_other_records_any_simulator_will_do() -> None:
    plain, wrapped = rough_simulator(), rough_simulator()
    plain.fit(records(5, seed=5))
    TransferSimulator(wrapped, [], MODEL, CLUSTER).fit(records(5, seed=5))
    assert wrapped == plain


def test_it_is_as_sure_as_the_simulator_within() -> None:
    others = sampled(MODEL, CLUSTER, 5)
    assert informed([]).predict_with_spread(MODEL, CLUSTER, others)[1] is None
    learned = LearnedSimulator(AnalyticSimulator())
    found = TransferSimulator(learned, [], MODEL, CLUSTER).predict_with_spread(MODEL, CLUSTER, others)
    np.testing.assert_array_equal(found, learned.predict_with_spread(MODEL, CLUSTER, others))
