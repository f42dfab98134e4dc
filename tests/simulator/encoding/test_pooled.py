"""Pooled inputs have a name each, are finite, and come from the same loads as the closed form's seconds."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator, Coefficients, Replay, ReplayCoefficients
from autosync.simulator.encoding import POOLED_INPUTS, REPLAY_POOLED, TOPOLOGY_POOLED, Encoder, closed_form_coefficients
from autosync.simulator.encoding.pooled import FEATURES, feature_table, features_and_seconds
from tests import cases
from tests.space.samples import sampled

MODEL = cases.bert_like_model(1)


@pytest.mark.parametrize("make", [cases.star_cluster, cases.uneven_cluster, cases.local_cluster, cases.gpu_cluster])
def test_every_pooled_input_has_a_name_and_is_finite(make) -> None:
    cluster = make()
    strategies = sampled(MODEL, cluster, 8)
    encoder, replay = Encoder(MODEL, cluster, strategies[0].replicas), Replay()
    features = feature_table(MODEL, cluster, strategies, Coefficients())
    figures = list(replay.all_figures(MODEL, cluster, strategies))
    seconds = np.exp(replay.predict(MODEL, cluster, strategies))
    result = encoder.pool(features, seconds, figures)
    assert result.shape == (8, len(POOLED_INPUTS))
    assert np.isfinite(result).all()
    replayed = result[:, -len(REPLAY_POOLED) :]
    assert (replayed >= -1e-12).all()
    assert (replayed <= 1 + 1e-9).all()
    np.testing.assert_array_equal(result[:, : len(FEATURES)], features)
    assert set(TOPOLOGY_POOLED) < set(POOLED_INPUTS)
    without = encoder.pool(features, seconds, None)
    assert not without[:, -len(REPLAY_POOLED) :].any()


def test_all_figures_are_the_figures_of_each() -> None:
    cluster, replay = cases.uneven_cluster(), Replay()
    strategies = sampled(MODEL, cluster, 5)
    for strategy, result in zip(strategies, replay.all_figures(MODEL, cluster, strategies), strict=True):
        alone = replay.figures(MODEL, cluster, strategy)
        assert result.step_seconds == alone.step_seconds
        np.testing.assert_array_equal(result.variables.slack, alone.variables.slack)


def test_the_closed_forms_seconds_come_with_its_features() -> None:
    cluster, coefficients = cases.uneven_cluster(), Coefficients(overlap=0.2)
    strategies = sampled(MODEL, cluster, 20)
    features, seconds = features_and_seconds(MODEL, cluster, strategies, coefficients)
    np.testing.assert_array_equal(features, feature_table(MODEL, cluster, strategies, coefficients))
    expected = AnalyticSimulator(coefficients).predict(MODEL, cluster, strategies)
    np.testing.assert_array_equal(np.log(seconds), expected)


def test_the_closed_form_takes_the_coefficients_that_both_have() -> None:
    result = closed_form_coefficients(ReplayCoefficients(core_seconds_per_byte=7e-9, overlap=0.1))
    assert (result.core_seconds_per_byte, result.overlap) == (7e-9, 0.1)
