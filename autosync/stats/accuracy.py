"""Accuracy of predictions: MAPE and pairwise accuracy, with bootstrap intervals over strategies.

Notation: n strategies, with p predicted and m measured step seconds. MAPE = mean of |p / m - 1|. Pairwise accuracy is
the share of ordered pairs i, j (for example, pairs with m_i != m_j) that p puts in the same order; a tie in p counts
half. In a resample, strategy i occurs c_i times, and a pair c_i c_j times.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.numeric import FloatArray
from autosync.spec import RuntimeRecord
from autosync.stats.estimate import RESAMPLES, Estimate, estimate_of

FEWEST = 3


@dataclass(frozen=True)
class Quality:
    """The quality of the predictions of `strategies` strategies."""

    strategies: int
    mape: Estimate
    pairwise: Estimate


def quality_of(records: Sequence[RuntimeRecord], generator: np.random.Generator) -> Quality | None:
    """The quality over all records with a prediction and a step time; None for fewer than `FEWEST` records."""
    pairs = [(record.predicted_seconds, record.median_seconds) for record in records]
    known = np.array([(p, m) for p, m in pairs if p is not None and m is not None], np.float64).reshape(-1, 2)
    if len(known) < FEWEST:
        return None
    predicted, measured = known.T
    drawn = generator.integers(0, len(known), (RESAMPLES, len(known)))
    counts = np.zeros((RESAMPLES, len(known)))
    np.add.at(counts, (np.arange(RESAMPLES)[:, None], drawn), 1.0)
    counts = np.vstack([np.ones(len(known)), counts])
    errors = np.abs(predicted / measured - 1.0)
    accuracy = share_in_order(predicted, np.sign(differences(measured)), counts)
    return Quality(len(known), estimate_of(counts @ errors / len(known)), estimate_of(accuracy))


def pairwise_accuracy(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Share of pairs that `predicted` puts in the measured order; a tie in `predicted` counts half.

    Pairs with equal measurements are left out; NaN if no pair is left.
    """
    order = np.sign(differences(np.asarray(measured, np.float64)))
    return float(share_in_order(np.asarray(predicted, np.float64), order, np.ones(len(measured))))


def share_in_order(predicted: FloatArray, order: FloatArray, counts: FloatArray) -> FloatArray:
    """Share of ordered pairs that `predicted` (..., n) puts in their order, (...,); a tie in `predicted` counts half.

    `order` (..., n, n) is 1 if i belongs after j, -1 if before j, and 0 without an order. By `counts` (..., n), a pair
    counts c_i c_j times. NaN if no pair has an order.
    """
    pairs = over_pairs(np.abs(order), counts)
    return ratio_of((over_pairs(order * np.sign(differences(predicted)), counts) + pairs) / 2, pairs)


def over_pairs(values: FloatArray, counts: FloatArray) -> FloatArray:
    """Sum over i and j of c_i values_ij c_j, (...,). A strategy and its own copy have order 0 and add nothing."""
    return np.asarray(((counts[..., None, :] @ values)[..., 0, :] * counts).sum(axis=-1))


def differences(values: FloatArray) -> FloatArray:
    """values_i - values_j, (..., n, n)."""
    return np.asarray(values[..., :, None] - values[..., None, :])


def ratio_of(part: npt.ArrayLike, whole: npt.ArrayLike) -> FloatArray:
    """`part` over `whole`; NaN where `whole` is 0."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.asarray(np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0))


def best_so_far(records: Sequence[RuntimeRecord]) -> FloatArray:
    """Least median step seconds after each record, float64 (n,); infinite until a record holds a step time."""
    medians = [float("inf") if record.median_seconds is None else record.median_seconds for record in records]
    return np.minimum.accumulate(np.array(medians, np.float64))


def strategy_medians(records: Sequence[RuntimeRecord]) -> dict[str, float]:
    """Step seconds by strategy's digest, in order of first record: the median over medians of its complete records."""
    medians: dict[str, list[float]] = {}
    for record in records:
        if record.outcome == "ok" and record.median_seconds is not None:
            medians.setdefault(record.strategy.digest, []).append(record.median_seconds)
    return {name: statistics.median(values) for name, values in medians.items()}
