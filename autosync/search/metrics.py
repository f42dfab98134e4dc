"""How well a search went, how well a simulator ranks, and how sure a median is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import binom, kendalltau

from autosync.spec import RuntimeRecord

__all__ = ["best_so_far", "kendall_tau", "median_interval", "pairwise_accuracy", "regret"]

Floats = npt.NDArray[np.float64]


def kendall_tau(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Rank agreement, tau-b: 1 the same order, -1 reversed; NaN when either says all the same, or for under two."""
    if len(predicted) < 2:
        return float("nan")
    return float(kendalltau(predicted, measured).statistic)


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


def regret(records: Sequence[RuntimeRecord], best_known_seconds: float) -> Floats:
    """After each record, by what share the best so far is slower than the best known, float64 (n,)."""
    return best_so_far(records) / best_known_seconds - 1.0


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Two order statistics that hold the median with at least `confidence`, whatever the distribution.

    Exact for independent values: X(k) to X(n+1-k) with the largest k for which 2 P(Binomial(n, 1/2) < k) is at most
    1 - `confidence`. With so few values that no k exists (under 6 for 95 %), the least and the greatest. Steps of one
    trial depend on each other, so between trials a median varies more than this says.
    """
    if not values:
        raise ValueError("A median's interval needs at least one value; none was given.")
    ordered = sorted(values)
    rank = int(binom.ppf((1 - confidence) / 2, len(ordered), 0.5))
    if rank and 2 * binom.cdf(rank - 1, len(ordered), 0.5) > 1 - confidence:
        rank -= 1
    rank = max(rank, 1)
    return ordered[rank - 1], ordered[len(ordered) - rank]
