"""A simulator's stated uncertainty compared with its real errors."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.cost import Replay
from autosync.simulator import NETWORKS, LearnedSimulator
from autosync.simulator.ensemble import ENOUGH, HeldOut, Uncertainty, calibrate_spread, family_error
from tests import cases
from tests.cover import thorough
from tests.simulator.cases import CLUSTER, MODEL, QUICK, records
from tests.space.samples import sampled


def covered(made: LearnedSimulator, seed: int) -> float:
    """Return the share of other records whose times lie in the 90 % interval."""
    unseen = records(150, seed)
    mean, spread = made.predict_with_spread(MODEL, CLUSTER, [record.strategy for record in unseen])
    measured = np.log([record.median_seconds for record in unseen])
    return float((np.abs(measured - mean) < 1.645 * spread).mean())


def held(errors: np.ndarray, weights: np.ndarray | None = None) -> HeldOut:
    """Return held-out records that all members agree on."""
    return HeldOut(errors, np.zeros(len(errors)), np.ones(len(errors)) if weights is None else weights)


@pytest.mark.parametrize("network", [network if network == "linear" else thorough(network) for network in NETWORKS])
def test_the_90_percent_interval_covers_about_90_percent(network: str) -> None:
    """Between 81 % and 97 % of 150 records: an exact interval misses that range by chance once in a thousand times."""
    made = LearnedSimulator(Replay(), network, settings=QUICK)
    made.fit(records(120))
    assert 0.81 <= covered(made, seed=9) <= 0.97


@pytest.mark.thorough
def test_validation_records_calibrate_where_they_are_given() -> None:
    made = LearnedSimulator(Replay(), settings=QUICK)
    made.fit(records(80), validation=records(60, seed=5, noise=0.2))
    spread = made.predict_with_spread(MODEL, CLUSTER, sampled(MODEL, CLUSTER, 20))[1]
    assert 0.12 < spread.mean() < 0.35


@pytest.mark.thorough
def test_a_model_or_cluster_nothing_is_known_of_is_less_sure() -> None:
    made = LearnedSimulator(Replay(), settings=QUICK)
    made.fit(records(60))
    known, unknown = (
        made.predict_with_spread(MODEL, cluster, sampled(MODEL, cluster, 20))[1].mean()
        for cluster in (CLUSTER, cases.rack_cluster())
    )
    assert unknown > 1.5 * known


def test_members_that_disagree_are_less_sure() -> None:
    spread = Uncertainty(error=0.03, scale=2.0, family_error=0.0)
    assert spread.of(np.array([0.0, 0.04]), "f").tolist() == pytest.approx([0.06, 0.1])


def test_the_scale_makes_a_normal_quantile_of_the_scores() -> None:
    errors = np.random.default_rng(0).normal(0, 0.05, 4000)
    result = calibrate_spread(held(errors), {"f": 4000}, 0.1, None)
    assert result.scale * result.error == pytest.approx(0.05, rel=0.05)
    heavy = calibrate_spread(held(errors * (np.arange(4000) % 3)), {"f": 4000}, 0.1, None)
    assert np.quantile(np.abs(errors * (np.arange(4000) % 3)), 0.9) == pytest.approx(
        1.645 * heavy.scale * heavy.error, rel=0.02
    )


def test_few_records_leave_the_prior_and_what_was_known_before() -> None:
    few = held(np.zeros(1))
    assert 0.1 < calibrate_spread(few, {}, 0.1, None).error < Uncertainty().error
    known = Uncertainty(error=0.02, family_error=0.05, families={"f": 100})
    result = calibrate_spread(few, {"g": 1, "f": 1}, None, known)
    assert 0.018 < result.error < 0.02
    assert (result.family_error, result.families) == (0.05, {"f": 101, "g": 1})
    assert calibrate_spread(held(np.full(ENOUGH - 1, 0.1)), {}, 0.1, None).scale == 1.0


def test_held_out_records_count_by_their_weight() -> None:
    errors = np.random.default_rng(0).normal(0, 0.05, 400) * np.repeat([1.0, 4.0], 200)
    weighted = calibrate_spread(held(errors, np.repeat([1.0, 0.01], 200)), {"f": 400}, 0.1, None)
    assert weighted.scale * weighted.error == pytest.approx(0.05, rel=0.15)
    unweighted = calibrate_spread(held(errors), {"f": 400}, 0.1, None)
    assert unweighted.scale * unweighted.error > 2 * weighted.scale * weighted.error


def test_the_level_of_a_family_is_as_unsure_as_levels_differ() -> None:
    families = np.repeat([0, 1, 2, 3], 5)
    alike, apart = np.zeros(20), np.repeat([0.5, -0.5, 0.5, -0.5], 5)
    assert family_error(alike, families) < 0.1 < 0.4 < family_error(apart, families)
