"""How good the predictions of a run were: MAPE and pairwise accuracy, each with a bootstrap interval over strategies.

Notation: n strategies, with p predicted and m measured step seconds. MAPE = mean of |p / m - 1|. Pairwise accuracy is
the share of pairs i, j with m_i != m_j that p puts in the same order; a tie in p counts half. In a resample strategy i
comes c_i times, and a pair c_i c_j times.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.spec import RuntimeRecord

__all__ = ["Estimate", "Quality", "best_so_far", "pairwise_accuracy", "quality_of", "strategy_medians"]

Floats = npt.NDArray[np.float64]

RESAMPLES = 1000
FEWEST = 3


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; NaN where it says nothing."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Quality:
    """The quality of the predictions of `strategies` strategies."""

    strategies: int
    mape: Estimate
    pairwise: Estimate


def quality_of(records: Sequence[RuntimeRecord], generator: np.random.Generator) -> Quality | None:
    """The quality by records with a prediction and a step time; None for fewer than `FEWEST`."""
    pairs = [(each.predicted_seconds, each.median_seconds) for each in records]
    known = np.array([(p, m) for p, m in pairs if p is not None and m is not None], np.float64).reshape(-1, 2)
    if len(known) < FEWEST:
        return None
    predicted, measured = known.T
    drawn = generator.integers(0, len(known), (RESAMPLES, len(known)))
    counts = np.zeros((RESAMPLES, len(known)))
    np.add.at(counts, (np.arange(RESAMPLES)[:, None], drawn), 1.0)
    counts = np.vstack([np.ones(len(known)), counts])
    errors = np.abs(predicted / measured - 1.0)
    return Quality(
        len(known), _estimate(counts @ errors / len(known)), _estimate(_pairwise(predicted, measured, counts))
    )


def _pairwise(predicted: Floats, measured: Floats, counts: Floats) -> Floats:
    truth = np.sign(measured[:, None] - measured[None, :])
    agreement = truth * np.sign(predicted[:, None] - predicted[None, :])
    pairs = ((counts @ np.abs(truth)) * counts).sum(axis=1)
    right = ((counts @ agreement) * counts).sum(axis=1)
    accuracy: Floats = np.divide(0.5 * (right + pairs), pairs, out=np.full(len(counts), np.nan), where=pairs > 0)
    return accuracy


def _estimate(values: Floats) -> Estimate:
    """The first value, and the middle 95 % of the others, which are resampled."""
    resampled = values[1:][np.isfinite(values[1:])]
    if not len(resampled):
        return Estimate(float(values[0]), float("nan"), float("nan"))
    low, high = np.quantile(resampled, (0.025, 0.975))
    return Estimate(float(values[0]), float(low), float(high))


def pairwise_accuracy(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Share of pairs that are put in the measured order; a tie in `predicted` counts half.

    Pairs measured equal are left out; NaN when none is left.
    """
    upper = np.triu_indices(len(measured), 1)
    ranked = np.sign(np.subtract.outer(np.asarray(predicted, float), np.asarray(predicted, float)))[upper]
    truth = np.sign(np.subtract.outer(np.asarray(measured, float), np.asarray(measured, float)))[upper]
    agreement = (ranked * truth)[truth != 0]
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
