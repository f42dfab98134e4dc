"""A cascade of simulators: the strategies that the best simulator predicts, and the order of the remaining drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from autosync.cost import CascadeSimulator
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from tests.contracts.test_simulator_contract import CLUSTER, MODEL, record
from tests.space.samples import sampled

STRATEGIES = list({strategy.digest: strategy for strategy in sampled(MODEL, CLUSTER, 80)}.values())[:40]
NUMBER = {strategy.digest: number for number, strategy in enumerate(STRATEGIES)}


@dataclass
class Table:
    """Predicts `sign` times a strategy's number, and records the strategies asked for and the fits."""

    sign: float
    asked: list[int] = field(default_factory=list)
    fitted: list[tuple[int, Sequence[float] | None]] = field(default_factory=list)

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> np.ndarray:
        assert (model, cluster) == (MODEL, CLUSTER)
        self.asked += [NUMBER[strategy.digest] for strategy in strategies]
        return self.sign * np.array([NUMBER[strategy.digest] for strategy in strategies], dtype=np.float64)

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        self.fitted.append((len(records), weights))


def predicted(made: CascadeSimulator, strategies: Sequence[Strategy] = STRATEGIES) -> list[float]:
    return made.predict(MODEL, CLUSTER, strategies).tolist()


def test_the_fastest_drafts_are_predicted_by_the_best() -> None:
    best = Table(-1.0)
    found = predicted(CascadeSimulator(Table(1.0), best, verified=10))
    assert sorted(best.asked) == list(range(10))
    assert found[:10] == [-float(number) for number in range(10)]


def test_the_remaining_strategies_follow_in_the_order_and_at_the_distances_of_their_drafts() -> None:
    found = predicted(CascadeSimulator(Table(1.0), Table(-1.0), verified=10))
    slowest = max(found[:10])
    assert min(found[10:]) >= slowest
    assert np.diff(found[10:]) == pytest.approx(1.0)


def test_a_small_batch_is_predicted_by_the_best_alone() -> None:
    draft, best = Table(1.0), Table(-1.0)
    assert predicted(CascadeSimulator(draft, best, verified=40)) == [-float(number) for number in range(40)]
    assert draft.asked == []
    assert predicted(CascadeSimulator(draft, best, verified=40), []) == []


def test_fitted_strategies_are_always_verified() -> None:
    best = Table(-1.0)
    made = CascadeSimulator(Table(1.0), best, verified=10)
    measured = [record(STRATEGIES[number], (1.0,)) for number in (3, 30, 35)]
    made.fit([*measured, record(STRATEGIES[20], (), "failed")])
    found = predicted(made)
    assert sorted(best.asked) == [*range(10), 30, 35]
    assert (found[30], found[35]) == (-30.0, -35.0)
    assert found[20] >= max(found[:10])
    made.fit(measured[:1])
    best.asked.clear()
    predicted(made)
    assert sorted(best.asked) == list(range(10))


def test_both_learn_from_the_same_records_with_the_same_weights() -> None:
    draft, best = Table(1.0), Table(-1.0)
    made, records = CascadeSimulator(draft, best), [record(strategy, (1.0,)) for strategy in STRATEGIES[:3]]
    made.fit(records)
    made.fit(records, [1.0, 0.5, 0.5])
    assert draft.fitted == best.fitted == [(3, None), (3, [1.0, 0.5, 0.5])]


@dataclass
class UnsureTable(Table):
    """Reports a standard deviation of the strategy's number over a hundred."""

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[np.ndarray, np.ndarray]:
        found = self.predict(model, cluster, strategies)
        return found, np.abs(found) / 100


def test_verified_strategies_have_the_deviations_of_the_best_and_drafts_the_largest() -> None:
    made = CascadeSimulator(Table(1.0), UnsureTable(-1.0), verified=10)
    found, spread = made.predict_with_spread(MODEL, CLUSTER, STRATEGIES)
    assert found.tolist() == predicted(made)
    assert spread is not None
    assert spread.tolist() == pytest.approx([number / 100 for number in range(10)] + [0.09] * 30)
    _, of_few = made.predict_with_spread(MODEL, CLUSTER, STRATEGIES[:3])
    assert of_few is not None
    assert of_few.tolist() == pytest.approx([0.0, 0.01, 0.02])


@pytest.mark.parametrize("count", [5, 40])
def test_there_are_no_deviations_if_the_best_reports_none(count: int) -> None:
    made = CascadeSimulator(UnsureTable(1.0), Table(-1.0), verified=10)
    assert made.predict_with_spread(MODEL, CLUSTER, STRATEGIES[:count])[1] is None
