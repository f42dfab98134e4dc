"""How good the predictions of a run were: MAPE and pairwise accuracy, each with a bootstrap interval over strategies.

Notation: n strategies, with p predicted and m measured step seconds. MAPE = mean of |p / m - 1|. Pairwise accuracy is
the share of pairs i, j with m_i != m_j that p puts in the same order; a tie in p counts half. In a resample strategy i
comes c_i times, and a pair c_i c_j times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.spec import RuntimeRecord

__all__ = ["Estimate", "Quality", "quality_of"]

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
