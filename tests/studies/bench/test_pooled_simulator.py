"""A simulator over a pool: when it is fitted again, and which searches share a fit."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from studies.bench.pooled_simulator import PooledSimulator, PredictionMemory
from tests.tune.recorded.examples import cell, records_of

CELL = cell()
MEMBERS = tuple(CELL.trials)
TIMED = [record for record in records_of("two") if record.timed]
MODEL, CLUSTER = CELL.space.model, CELL.space.cluster


class Counting:
    """The closed form, which notes the number of records of each fit."""

    def __init__(self, fits: list[int]) -> None:
        self._fits = fits
        self._simulator = AnalyticSimulator()

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> np.ndarray:
        return self._simulator.predict(model, cluster, strategies)

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        self._fits.append(len(records))
        self._simulator.fit(records, weights)


def pooled(fits: list[int], memory: PredictionMemory, named: str = "counting") -> PooledSimulator:
    return PooledSimulator(named, lambda: Counting(fits), MEMBERS, memory)


def test_it_predicts_what_the_simulator_does_after_the_same_records() -> None:
    simulator, plain = pooled([], {}), AnalyticSimulator()
    assert simulator.predict(MODEL, CLUSTER, MEMBERS[3:7]) == pytest.approx(plain.predict(MODEL, CLUSTER, MEMBERS[3:7]))
    simulator.fit(TIMED)
    plain.fit(sorted(TIMED, key=lambda record: (record.strategy.digest, record.step_seconds)))
    assert simulator.predict(MODEL, CLUSTER, MEMBERS) == pytest.approx(plain.predict(MODEL, CLUSTER, MEMBERS))


def test_it_is_fitted_anew_once_there_are_twice_the_records_and_eight_more() -> None:
    fits: list[int] = []
    simulator = pooled(fits, {})
    for count in range(1, 27):
        simulator.fit(TIMED[:count])
        simulator.predict(MODEL, CLUSTER, MEMBERS[:2])
    assert fits == [8, 24]


def test_who_shares_a_memory_shares_a_fit_on_the_same_records_in_any_order() -> None:
    fits: list[int] = []
    memory: PredictionMemory = {}
    for seed in range(3):
        simulator, records = pooled(fits, memory), TIMED[:12]
        random.Random(seed).shuffle(records)
        simulator.fit(records)
        simulator.predict(MODEL, CLUSTER, MEMBERS)
    assert fits == [12]


def test_simulators_of_other_names_share_nothing() -> None:
    fits: list[int] = []
    memory: PredictionMemory = {}
    for named in ("one", "other"):
        simulator = pooled(fits, memory, named)
        simulator.fit(TIMED[:12])
        simulator.predict(MODEL, CLUSTER, MEMBERS)
    assert fits == [12, 12]


def test_a_strategy_outside_the_pool_is_refused() -> None:
    with pytest.raises(KeyError):
        PooledSimulator("few", AnalyticSimulator, MEMBERS[:2], {}).predict(MODEL, CLUSTER, MEMBERS[2:3])
