"""Records become examples with their noise; the result is independent of their order."""

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
from autosync.stats.drift import Timed
from tests import cases
from tests.simulator.cases import records


class Counting:
    """A base that counts the strategies it predicts."""

    def __init__(self) -> None:
        self.predicted = 0

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> np.ndarray:  # noqa: ARG002
        self.predicted += len(strategies)
        return np.zeros(len(strategies))

    def fit(self, records: Sequence[object]) -> None:
        """Do nothing."""


def test_a_strategy_timed_three_times_is_encoded_once() -> None:
    base = Counting()
    originals = records(4) * 3
    result = examples_of(Timed.of(originals), View(base, Detail.GRAPH, Ablation()))
    assert base.predicted == 4
    assert len(result) == 12
    assert result.targets.strategies.tolist() == [0, 1, 2, 3] * 3
    assert torch.equal(result.inputs.pooled[:4], result.inputs.pooled[8:])


def test_what_the_machine_drifted_by_between_occasions_is_taken_off_and_never_ranked() -> None:
    early = [replace(record, total_seconds=5.0) for record in records(30, noise=0.0)]
    late = [
        replace(record, started_at=7200.0, step_seconds=tuple(1.2 * seconds for seconds in record.step_seconds))
        for record in early
    ]
    result = examples_of(Timed.of([*early, *late]), View(AnalyticSimulator(), Detail.POOLED, Ablation())).targets
    assert result.occasions.tolist() == [0] * 30 + [1] * 30
    between = (result.measured[30:] - result.measured[:30]).numpy()
    np.testing.assert_allclose(between, 0.0, atol=0.02)
    faster, slower = result.distinguishable_pairs
    assert len(faster)
    assert torch.equal(result.occasions[faster], result.occasions[slower])


def test_families_are_told_apart_and_strategies_of_two_families_are_two() -> None:
    first, second = records(2), records(2, cluster=cases.rack_cluster())
    mixed = [first[0], second[0], first[1], second[1]]
    result = examples_of(Timed.of(mixed), View(AnalyticSimulator(), Detail.POOLED, Ablation()))
    assert result.targets.occasions.tolist() == [0, 1, 0, 1]
    assert len(set(result.targets.strategies.tolist())) == 4
    assert list(family_counts(mixed).values()) == [2, 2]
    alone = examples_of(Timed.of(second), View(AnalyticSimulator(), Detail.POOLED, Ablation()))
    torch.testing.assert_close(result.take([1, 3]).inputs.pooled, alone.inputs.pooled, rtol=0, atol=1e-12)


def test_a_median_of_noisy_steps_is_less_sure() -> None:
    [originals] = records(1)
    noisy = replace(originals, step_seconds=(0.1, 0.2, 0.1, 0.3, 0.2))
    calm = replace(originals, step_seconds=(0.2,) * 5)
    single = replace(originals, step_seconds=(0.2,))
    errors = examples_of(
        Timed.of([noisy, calm, single]), View(AnalyticSimulator(), Detail.POOLED, Ablation())
    ).targets.errors
    assert errors[0] > 0.2
    assert errors[1:].tolist() == pytest.approx([0.01, 0.05])


def test_the_digest_of_the_data_is_that_of_the_records_in_any_order() -> None:
    originals = records(5)
    assert data_digest(originals) == data_digest(originals[::-1])
    assert data_digest(originals) != data_digest(originals[:4])
    assert data_digest(originals) != data_digest([replace(originals[0], step_seconds=(0.5,)), *originals[1:]])


def test_inputs_that_hardly_change_are_not_blown_up_and_outliers_are_kept_in() -> None:
    rows = torch.tensor([[0.0, 1.0], [1.0, 1.001], [2.0, 1.0]], dtype=torch.float64)
    normalize = Normalization.of(Inputs(rows))
    result = normalize(Inputs(torch.cat([rows, torch.tensor([[99.0, 1.0]], dtype=torch.float64)]))).pooled
    assert result[:3, 0].tolist() == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])
    assert result[:3, 1].abs().max() < 0.05
    assert result[3, 0] == 3.0
