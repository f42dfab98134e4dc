"""Calibration recovers a known law, stays near the prior with few records, and is robust to outliers."""

from __future__ import annotations

import json
import random
from dataclasses import asdict

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator, Coefficients
from autosync.errors import SpecError
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol
from search_spaces.default import SPACE
from tests import cases

MODEL, CLUSTER = cases.bert_like_model(), cases.star_cluster()
LAW = Coefficients(0.02, 3e-10, 2e-13, 4e-4, 4e-9, 1e-9, overlap=0.1)


def sampled(count: int, seed: int) -> list[Strategy]:
    space, rng = SPACE.bind(MODEL, CLUSTER), random.Random(seed)
    return [space.sample(rng) for _ in range(count)]


def record(strategy: Strategy, step_seconds: float) -> RuntimeRecord:
    protocol = TimingProtocol()
    return RuntimeRecord(
        MODEL, CLUSTER, strategy, protocol, "ok", "search", "x", "r", 0, 0.0, step_seconds=(float(step_seconds),)
    )


def records(count: int, factor: float = 1.0, noise: float = 0.03) -> list[RuntimeRecord]:
    """Records of `LAW`, `factor` times as slow."""
    strategies = sampled(count, seed=1)
    errors = np.random.default_rng(0).normal(0, noise, count)
    times = np.exp(AnalyticSimulator(LAW).predict(MODEL, CLUSTER, strategies) + errors) * factor
    return [record(strategy, time) for strategy, time in zip(strategies, times, strict=True)]


def worst_error(simulator: AnalyticSimulator) -> float:
    strategies = sampled(50, seed=2)
    law = AnalyticSimulator(LAW).predict(MODEL, CLUSTER, strategies)
    return float(np.abs(simulator.predict(MODEL, CLUSTER, strategies) - law).max())


def test_without_records_the_prior_stands() -> None:
    simulator = AnalyticSimulator(LAW)
    simulator.fit([])
    assert simulator.coefficients == LAW


def test_forty_records_of_a_law_are_enough_to_predict_it_within_five_percent() -> None:
    simulator = AnalyticSimulator()
    assert worst_error(simulator) > 0.5
    simulator.fit(records(40))
    assert worst_error(simulator) < 0.05


def test_a_tenth_of_outliers_twenty_times_too_slow_hardly_matters() -> None:
    simulator = AnalyticSimulator()
    simulator.fit([*records(40), *records(4, factor=20.0)])
    assert worst_error(simulator) < 0.06


def test_one_record_moves_all_costs_of_the_machine_together_and_not_far() -> None:
    simulator = AnalyticSimulator()
    simulator.fit(records(1))
    found, prior = asdict(simulator.coefficients), asdict(Coefficients())
    ratios = [found[name] / prior[name] for name in found if name.startswith("core_")]
    assert all(1.2 < ratio < 6 for ratio in ratios)
    assert max(ratios) < 2.5 * min(ratios)
    assert found["gpu_seconds_per_flop"] == pytest.approx(prior["gpu_seconds_per_flop"], rel=0.01)


@pytest.mark.parametrize("factor", [1e-4, 1.0, 1e4])
def test_coefficients_never_become_negative_or_infinite(factor: float) -> None:
    simulator = AnalyticSimulator()
    simulator.fit([*records(10, factor=factor), *records(2, factor=1 / factor)])
    values = np.array(list(asdict(simulator.coefficients).values()))
    assert np.isfinite(values).all()
    assert (values >= 0).all()


def test_fitting_starts_from_the_prior_every_time() -> None:
    once, twice = AnalyticSimulator(), AnalyticSimulator()
    twice.fit(records(10, factor=3.0))
    for simulator in (once, twice):
        simulator.fit(records(20))
    assert once.coefficients == twice.coefficients


def test_a_state_survives_json_and_restores_the_same_numbers() -> None:
    saved, restored = AnalyticSimulator(), AnalyticSimulator(LAW)
    saved.fit(records(10))
    restored.restore(json.loads(json.dumps(saved.state())))
    assert (restored.coefficients, restored.prior) == (saved.coefficients, saved.prior)


def test_an_invalid_state_is_refused_and_the_missing_field_named() -> None:
    with pytest.raises(SpecError, match="The state of an AnalyticSimulator needs the field 'prior'"):
        AnalyticSimulator().restore({})
    state = AnalyticSimulator().state()
    del state["prior"]["overlap"]
    with pytest.raises(SpecError, match="Coefficients needs the field 'overlap'"):
        AnalyticSimulator().restore(state)
