"""Calibration recovers a known law, and few or noisy records do not make the ranking worse."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest

from autosync.cost import Restorable, Simulator
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay import Replay
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, RuntimeRecord, SharedCores, Strategy, TimingProtocol
from search_spaces.default import SPACE
from tests import cases


def emulated(cores: float) -> ClusterSpec:
    """Four nodes that share one machine with `cores` cores."""
    cluster = cases.star_cluster()
    return replace(
        cluster, nodes=tuple(replace(node, shared_cores=SharedCores("one", cores)) for node in cluster.nodes)
    )


MODEL, CLUSTER = cases.bert_like_model(2), emulated(3.0)
LAW = ReplayCoefficients(0.02, 1.5e-10, 2e-13, 6e-4, 4e-9, 1e-9, 2e-9, 2e-4, overlap=0.2)


@cache
def sampled(count: int, seed: int) -> tuple[Strategy, ...]:
    space, rng = SPACE.bind(MODEL, CLUSTER), random.Random(seed)
    return tuple(space.sample(rng) for _ in range(count))


def records(count: int, seed: int = 1, noise: float = 0.03, factor: float = 1.0) -> list[RuntimeRecord]:
    """Records of `LAW`, `factor` times as slow, whose medians have a relative error of `noise`."""
    strategies = sampled(count, seed)
    errors = np.random.default_rng(seed).normal(0, noise, count)
    times = factor * np.exp(Replay(LAW).predict(MODEL, CLUSTER, strategies) + errors)
    return [
        RuntimeRecord(
            MODEL, CLUSTER, strategy, TimingProtocol(), "ok", "search", "x", "r", 0, 0.0, step_seconds=(float(time),)
        )
        for strategy, time in zip(strategies, times, strict=True)
    ]


def ranked_right(simulator: Replay, strategies: Sequence[Strategy]) -> float:
    """The share of pairs whose predicted order is the order under the law."""
    truth = Replay(LAW).predict(MODEL, CLUSTER, strategies)
    guess = simulator.predict(MODEL, CLUSTER, strategies)
    upper = np.triu_indices(len(truth), 1)
    return float(np.mean((np.subtract.outer(truth, truth) > 0)[upper] == (np.subtract.outer(guess, guess) > 0)[upper]))


def errors(simulator: Replay) -> np.ndarray:
    strategies = sampled(30, seed=2)
    return np.abs(simulator.predict(MODEL, CLUSTER, strategies) - Replay(LAW).predict(MODEL, CLUSTER, strategies))


def test_a_replay_is_a_simulator_whose_knowledge_can_be_restored() -> None:
    simulator: Simulator = Replay()
    assert isinstance(simulator, Restorable)


def test_without_records_the_prior_stands() -> None:
    simulator = Replay(LAW)
    simulator.fit([])
    assert simulator.coefficients == LAW


def test_thirty_records_of_a_law_are_enough_to_predict_it_within_six_percent() -> None:
    simulator = Replay()
    assert np.median(errors(simulator)) > 0.3
    simulator.fit(records(30))
    assert np.median(errors(simulator)) < 0.03
    assert errors(simulator).max() < 0.10


@pytest.mark.thorough
def test_any_thirty_records_are_enough() -> None:
    found = []
    for seed in range(3, 11):
        simulator = Replay()
        simulator.fit(records(30, seed))
        found.append(np.median(errors(simulator)))
    assert np.mean(found) < 0.015
    assert np.max(found) < 0.03


@pytest.mark.thorough
@pytest.mark.parametrize("count", [1, 3, 10])
def test_few_and_noisy_records_do_not_make_the_ranking_worse(count: int) -> None:
    others, prior, fitted = sampled(40, seed=3), [], []
    for seed in range(4):
        simulator = Replay()
        prior.append(ranked_right(simulator, others))
        simulator.fit(records(count, seed=10 + seed, noise=0.25))
        fitted.append(ranked_right(simulator, others))
    assert np.mean(fitted) >= np.mean(prior) - 0.01
    assert min(fitted) >= min(prior) - 0.05


def test_a_few_records_of_a_slow_machine_bring_predictions_nearer() -> None:
    simulator = Replay()
    before = np.median(errors(simulator))
    simulator.fit(records(4))
    assert np.median(errors(simulator)) < 0.7 * before


def test_outliers_hardly_matter() -> None:
    simulator = Replay()
    simulator.fit([*records(30), *records(3, seed=9, factor=20.0)])
    assert np.median(errors(simulator)) < 0.05


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_coefficients_stay_positive_and_shares_between_0_and_1(factor: float) -> None:
    simulator = Replay()
    simulator.fit(records(4, factor=factor))
    values = asdict(simulator.coefficients)
    assert all(np.isfinite(value) and value >= 0 for value in values.values())
    assert 0 <= values["overlap"] <= 1


def test_fitting_starts_from_the_prior_every_time() -> None:
    once, twice = Replay(), Replay()
    twice.fit(records(4, factor=3.0))
    for simulator in (once, twice):
        simulator.fit(records(6))
    assert once.coefficients == twice.coefficients


def test_coefficients_that_no_record_uses_keep_the_prior() -> None:
    simulator = Replay()
    simulator.fit(records(6))
    assert simulator.coefficients.gpu_seconds_per_flop == pytest.approx(simulator.prior.gpu_seconds_per_flop)


def test_a_state_survives_json_and_restores_the_same_numbers() -> None:
    saved, restored = Replay(), Replay(LAW)
    saved.fit(records(3))
    restored.restore(json.loads(json.dumps(saved.state())))
    assert (restored.coefficients, restored.prior) == (saved.coefficients, saved.prior)


def test_an_invalid_state_is_refused_and_the_missing_field_named() -> None:
    with pytest.raises(SpecError, match="The state of a Replay needs the field 'prior'"):
        Replay().restore({})
    state = Replay().state()
    del state["prior"]["overlap"]
    with pytest.raises(SpecError, match="Replay coefficients needs the field 'overlap'"):
        Replay().restore(state)


def test_an_invalid_coefficient_is_refused() -> None:
    with pytest.raises(SpecError, match="core_seconds_per_byte must be a number of at least 0, not -1"):
        ReplayCoefficients(core_seconds_per_byte=-1.0)
    with pytest.raises(SpecError, match=r"overlap is a share between 0 and 1, not 1.5"):
        ReplayCoefficients(overlap=1.5)
