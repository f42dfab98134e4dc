"""Training stops where held-out records are predicted best, is pulled to its prior, and sees every record."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
import torch

from autosync.simulator.encoding import POOLED_INPUTS
from autosync.simulator.examples import Examples, Targets
from autosync.simulator.inputs import Inputs
from autosync.simulator.networks.linear import LinearResidual
from autosync.simulator.settings import TrainingSettings
from autosync.simulator.train import FEWEST_HELD, FitTask, batches, train


def examples(count: int, measured: float, occasions: int = 1, weight: float = 1.0) -> Examples:
    """Return equal records that take `measured` log seconds where the base predicts 0."""
    zeros = torch.zeros(count, dtype=torch.float64)
    numbers = torch.arange(count)
    targets = Targets(zeros, zeros + measured, zeros + 0.01, numbers % occasions, numbers, zeros + weight)
    return Examples(Inputs(torch.zeros(count, len(POOLED_INPUTS), dtype=torch.float64)), targets)


def level(training: Examples, held: Examples) -> float:
    """Return the prediction after training."""
    module = LinearResidual()
    train(module, FitTask(training, held, TrainingSettings(), torch.Generator().manual_seed(0)))
    return float(module.level.detach())


def test_training_ends_with_what_was_best_on_held_out_records() -> None:
    training = examples(100, measured=0.3)
    assert level(training, examples(50, measured=0.3)) == pytest.approx(0.3, abs=0.03)
    assert level(training, examples(50, measured=-0.3)) == 0.0


def test_too_few_held_out_records_do_not_decide() -> None:
    training = examples(100, measured=0.3)
    assert level(training, examples(FEWEST_HELD - 1, measured=-0.3)) == pytest.approx(0.3, abs=0.03)
    assert level(training, examples(FEWEST_HELD, measured=-0.3)) == 0.0


def test_one_record_moves_a_network_less_than_many_that_agree() -> None:
    none = examples(0, 0.0)
    single, many = level(examples(1, 0.3), none), level(examples(100, 0.3), none)
    assert 0 < single < 0.9 * many


def test_light_records_move_a_network_less_than_as_many_heavy_ones() -> None:
    none = examples(0, 0.0)
    light, heavy = level(examples(5, 0.3, weight=0.1), none), level(examples(5, 0.3), none)
    assert 0 < light < 0.9 * heavy


def test_a_pass_takes_every_record_once_in_runs_of_one_occasion() -> None:
    training = examples(128, measured=0.0, occasions=4)
    task = FitTask(training, training, TrainingSettings(batch=32), torch.Generator().manual_seed(0))
    result = list(islice(batches(task), 4))
    assert Counter(place for batch in result for place in batch) == Counter(range(128))
    for batch in result:
        occasions = training.targets.occasions[list(batch)].tolist()
        assert max(Counter(occasions).values()) >= 16
        assert len(set(occasions)) <= 2


def test_a_batch_as_large_as_the_records_takes_all_of_them() -> None:
    training = examples(5, measured=0.0)
    task = FitTask(training, training, TrainingSettings(), torch.Generator())
    assert next(batches(task)) == range(5)
