"""Records become examples once each, with their noise, whatever order they come in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from autosync.cost import AnalyticSimulator
from autosync.simulator.examples import data_digest, examples_of, family_counts
from autosync.simulator.inputs import Detail, Inputs, Normalization
from autosync.simulator.settings import Ablation
from autosync.simulator.view import View
from autosync.spec import ClusterSpec, ModelSpec, Strategy
from autosync.stats.occasions import Timed
from tests import cases
from tests.simulator.cases import records


class Counting:
    """A base that counts the strategies it is asked about."""

    def __init__(self) -> None:
        self.asked = 0

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> np.ndarray:  # noqa: ARG002
        self.asked += len(strategies)
        return np.zeros(len(strategies))

    def fit(self, records: Sequence[object]) -> None:
        """There is nothing to learn."""


def test_a_strategy_timed_three_times_is_encoded_once() -> None:
    base = Counting()
    given = records(4) * 3
    found = examples_of(Timed.of(given), View(base, Detail.GRAPH, Ablation()))
    assert base.asked == 4
    assert len(found) == 12
    assert found.targets.strategies.tolist() == [0, 1, 2, 3] * 3
    assert torch.equal(found.inputs.pooled[:4], found.inputs.pooled[8:])


def test_what_the_machine_drifted_by_between_occasions_is_taken_off_and_never_ranked() -> None:
    early = [replace(each, total_seconds=5.0) for each in records(30, noise=0.0)]
    late = [
        replace(each, started_at=7200.0, step_seconds=tuple(1.2 * one for one in each.step_seconds)) for each in early
    ]
    found = examples_of(Timed.of([*early, *late]), View(AnalyticSimulator(), Detail.POOLED, Ablation())).targets
    assert found.occasions.tolist() == [0] * 30 + [1] * 30
    between = (found.measured[30:] - found.measured[:30]).numpy()
    np.testing.assert_allclose(between, 0.0, atol=0.02)
    faster, slower = found.told_apart
    assert len(faster)
    assert torch.equal(found.occasions[faster], found.occasions[slower])


def test_families_are_told_apart_and_strategies_of_two_families_are_two() -> None:
    one, other = records(2), records(2, cluster=cases.rack_cluster())
    mixed = [one[0], other[0], one[1], other[1]]
    found = examples_of(Timed.of(mixed), View(AnalyticSimulator(), Detail.POOLED, Ablation()))
    assert found.targets.occasions.tolist() == [0, 1, 0, 1]
    assert len(set(found.targets.strategies.tolist())) == 4
    assert list(family_counts(mixed).values()) == [2, 2]
    alone = examples_of(Timed.of(other), View(AnalyticSimulator(), Detail.POOLED, Ablation()))
    torch.testing.assert_close(found.take([1, 3]).inputs.pooled, alone.inputs.pooled, rtol=0, atol=1e-12)


def test_a_median_of_noisy_steps_is_less_sure() -> None:
    [given] = records(1)
    noisy = replace(given, step_seconds=(0.1, 0.2, 0.1, 0.3, 0.2))
    calm = replace(given, step_seconds=(0.2,) * 5)
    single = replace(given, step_seconds=(0.2,))
    errors = examples_of(
        Timed.of([noisy, calm, single]), View(AnalyticSimulator(), Detail.POOLED, Ablation())
    ).targets.errors
    assert errors[0] > 0.2
    assert errors[1:].tolist() == pytest.approx([0.01, 0.05])


def test_the_digest_of_the_data_is_that_of_the_records_in_any_order() -> None:
    given = records(5)
    assert data_digest(given) == data_digest(given[::-1])
    assert data_digest(given) != data_digest(given[:4])
    assert data_digest(given) != data_digest([replace(given[0], step_seconds=(0.5,)), *given[1:]])


def test_inputs_that_hardly_change_are_not_blown_up_and_outliers_are_kept_in() -> None:
    rows = torch.tensor([[0.0, 1.0], [1.0, 1.001], [2.0, 1.0]], dtype=torch.float64)
    normalize = Normalization.of(Inputs(rows))
    found = normalize(Inputs(torch.cat([rows, torch.tensor([[99.0, 1.0]], dtype=torch.float64)]))).pooled
    assert found[:3, 0].tolist() == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])
    assert found[:3, 1].abs().max() < 0.05
    assert found[3, 0] == 3.0
