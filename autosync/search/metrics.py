"""How well a search went, how well a simulator ranks, and how long strategies take over all their trials."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autosync.spec import RuntimeRecord

__all__ = ["best_so_far", "pairwise_accuracy", "strategy_medians"]

Floats = npt.NDArray[np.float64]


def pairwise_accuracy(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Share of pairs that are put in the measured order; a tie in `predicted` counts half.

    Pairs measured equal are left out; NaN when none is left.
    """
    upper = np.triu_indices(len(measured), 1)
    forecast = np.sign(np.subtract.outer(np.asarray(predicted, float), np.asarray(predicted, float)))[upper]
    truth = np.sign(np.subtract.outer(np.asarray(measured, float), np.asarray(measured, float)))[upper]
    agreement = (forecast * truth)[truth != 0]
    return float(np.mean((agreement + 1) / 2)) if agreement.size else float("nan")


def best_so_far(records: Sequence[RuntimeRecord]) -> Floats:
    """Least median step seconds after each record, float64 (n,); infinite until one is timed."""
    medians = [float("inf") if record.median_seconds is None else record.median_seconds for record in records]
    return np.minimum.accumulate(np.array(medians, np.float64))


def strategy_medians(records: Sequence[RuntimeRecord]) -> dict[str, float]:
    """Step seconds by strategy's digest, first met first: the median over the medians of its complete records."""
    medians: dict[str, list[float]] = {}
    for record in records:
        if record.outcome == "ok" and record.median_seconds is not None:
            medians.setdefault(record.strategy.digest, []).append(record.median_seconds)
    return {name: statistics.median(values) for name, values in medians.items()}
