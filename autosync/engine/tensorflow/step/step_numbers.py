"""Builds the tensor with the numbers of `StepMetrics` while a step is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autosync.engine.core.step_metrics import StepMetrics
from autosync.engine.tensorflow.step.global_gradient_rule import square_norm
from autosync.engine.tensorflow.step.passes import mean_loss
from autosync.engine.tensorflow.step.placed_model import Placed
from autosync.engine.tensorflow.step.replica import Results
from autosync.engine.tensorflow.sync.update import Update


def step_numbers(
    metrics: StepMetrics,
    placed: Placed,
    losses: Sequence[tf.Tensor],
    results: Sequence[Results],
    updates: Sequence[Update],
    more: Sequence[Any] = (),
) -> Any:
    """Return the numbers of `metrics` for the step under tracing, float64, followed by the scalars `more`."""
    first = placed.devices[0]
    numbers = [mean_loss(losses, first), *losses]
    if metrics.norms:
        numbers += [result.square_norm(device) for result, device in zip(results, placed.devices, strict=True)]
    if metrics.mean_norm:
        numbers.append(square_norm(updates, first))
    if metrics.ratios:
        numbers += [energy for device in placed.devices for energy in tf.unstack(placed.levels.energies(device))]
    with tf.device(first):
        return tf.stack([tf.cast(number, tf.float64) for number in [*numbers, *more]])
