"""Metrics of predictions: of the ranking, of the seconds, and of the stated uncertainty.

Notation: n strategies of one cell (a model on a cluster), with y measured and s predicted log seconds, e the standard
errors of y. Arrays are float64 (..., n); the leading axes are cases computed at once, such as resamples. Every metric
returns (...,), with NaN where it is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.numeric import FloatArray
from autosync.stats.accuracy import differences, over_pairs, ratio_of, share_in_order

SURE = 2.0
"""Two times differ beyond the noise if their difference exceeds this number of its standard errors."""
NEAR_TOP = 0.25
"""Strategies near the top take at most this share longer than the fastest."""
BEST, FIRST = 10, 20
"""Recall counts the `BEST` fastest strategies among the `FIRST` predicted fastest."""
NORMAL_90 = 1.6449
"""Standard deviations on either side that contain 90 % of a normal distribution."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions and measurements of n strategies, each (..., n)."""

    predicted: FloatArray
    """s, predicted log seconds."""
    measured: FloatArray
    """y, measured log seconds."""
    errors: FloatArray
    """e, standard errors of y."""
    spread: FloatArray | None = None
    """The standard deviations that the simulator states; None if it states none."""

    def at(self, positions: npt.NDArray[np.intp]) -> Predictions:
        """Return the predictions at `positions` (..., m) of predictions (n,), as (..., m)."""
        spread = None if self.spread is None else self.spread[positions]
        return Predictions(self.predicted[positions], self.measured[positions], self.errors[positions], spread)


def order_beyond_noise(predictions: Predictions) -> FloatArray:
    """Return the order of every pair i, j, (..., n, n): 1 if i took longer beyond the noise, -1 if j did.

    Beyond the noise is |y_i - y_j| > SURE sqrt(e_i^2 + e_j^2); pairs within it get 0.
    """
    squares, apart = predictions.errors**2, differences(predictions.measured)
    return np.asarray(np.sign(apart) * (apart**2 > SURE**2 * (squares[..., :, None] + squares[..., None, :])))


def order_near_top(predictions: Predictions) -> FloatArray:
    """Return `order_beyond_noise`, with 0 for a pair in which one strategy takes more than `NEAR_TOP` longer than the
    fastest.
    """
    fastest = predictions.measured.min(axis=-1, keepdims=True)
    near = predictions.measured <= fastest + math.log1p(NEAR_TOP)
    return order_beyond_noise(predictions) * (near[..., :, None] & near[..., None, :])


def pairwise_beyond_noise(predictions: Predictions) -> FloatArray:
    """Pairwise accuracy: the share of distinguishable pairs predicted in their order; a tie in s counts half."""
    return _pairwise_beyond_noise(predictions, _unit_counts(predictions))


def pairs_in_order(predictions: Predictions, wanted: npt.NDArray[np.bool_]) -> FloatArray:
    """Pairwise accuracy over the distinguishable pairs that are `wanted` (..., n, n)."""
    return share_in_order(predictions.predicted, order_beyond_noise(predictions) * wanted, _unit_counts(predictions))


def pairwise_near_top(predictions: Predictions) -> FloatArray:
    """Pairwise accuracy among the strategies near the top."""
    return _pairwise_near_top(predictions, _unit_counts(predictions))


def recall_of_best(predictions: Predictions) -> FloatArray:
    """The share of the `BEST` fastest among the `FIRST` predicted fastest. A random draw has FIRST / n; NaN if that is
    1.
    """
    if predictions.measured.shape[-1] <= FIRST:
        return _nothing(predictions)
    best = np.argsort(predictions.measured, axis=-1, kind="stable")[..., :BEST]
    first = np.argsort(predictions.predicted, axis=-1, kind="stable")[..., :FIRST]
    return np.asarray((best[..., :, None] == first[..., None, :]).any(axis=-1).mean(axis=-1))


def kendall_tau(predictions: Predictions) -> FloatArray:
    """Kendall's tau-b: concordant minus discordant pairs, over the root of the product of both counts without ties."""
    return _kendall_tau(predictions, _unit_counts(predictions))


def peak_at_1(predictions: Predictions) -> FloatArray:
    """Seconds of the fastest over seconds of the predicted fastest: 1 is best. (TenSet's top-1 score.)"""
    return _peak(predictions, 1)


def peak_at_5(predictions: Predictions) -> FloatArray:
    """Seconds of the fastest over seconds of the fastest of the five predicted fastest: 1 is best."""
    return _peak(predictions, 5)


def regret_of_best(predictions: Predictions) -> FloatArray:
    """The share by which the predicted fastest is slower than the fastest: 0 is best."""
    return np.asarray(1 / _peak(predictions, 1) - 1)


def mean_percentage_error(predictions: Predictions) -> FloatArray:
    """MAPE: mean of |predicted seconds / measured seconds - 1|."""
    return np.asarray(np.abs(np.expm1(predictions.predicted - predictions.measured)).mean(axis=-1))


def interval_coverage(predictions: Predictions) -> FloatArray:
    """The share of y within the 90 % interval, s plus or minus `NORMAL_90` deviations; 0.9 is best. NaN without
    spread.
    """
    if predictions.spread is None:
        return _nothing(predictions)
    off = np.abs(predictions.measured - predictions.predicted)
    return np.asarray((off <= NORMAL_90 * predictions.spread).mean(axis=-1))


def interval_width(predictions: Predictions) -> FloatArray:
    """The median half width of the 90 % interval, as a share of the predicted seconds. NaN without spread."""
    if predictions.spread is None:
        return _nothing(predictions)
    return np.asarray(np.median(np.expm1(NORMAL_90 * predictions.spread), axis=-1))


@dataclass(frozen=True)
class Metric:
    """A metric with its presentation in tables."""

    name: str
    heading: str
    """The column's heading."""
    of: Callable[[Predictions], FloatArray]
    of_counts: Callable[[Predictions, FloatArray], FloatArray] | None = None
    """For a metric of pairs: the metric of resamples, from the count of each of n strategies in each resample,
    (b, n).
    """
    in_percent: bool = False
    """Whether tables show per cent."""

    def resample(self, predictions: Predictions, positions: npt.NDArray[np.intp]) -> FloatArray:
        """Return the metric of predictions (n,) on each resample at `positions` (b, n): (b,)."""
        if self.of_counts is None:
            return self.of(predictions.at(positions))
        counts = np.zeros(positions.shape)
        np.add.at(counts, (np.arange(len(positions))[:, None], positions), 1.0)
        return self.of_counts(predictions, counts)


def _pairwise_beyond_noise(predictions: Predictions, counts: FloatArray) -> FloatArray:
    return share_in_order(predictions.predicted, order_beyond_noise(predictions), counts)


def _pairwise_near_top(predictions: Predictions, counts: FloatArray) -> FloatArray:
    return share_in_order(predictions.predicted, order_near_top(predictions), counts)


def _kendall_tau(predictions: Predictions, counts: FloatArray) -> FloatArray:
    measured, predicted = np.sign(differences(predictions.measured)), np.sign(differences(predictions.predicted))
    untied = over_pairs(np.abs(measured), counts) * over_pairs(np.abs(predicted), counts)
    return ratio_of(over_pairs(measured * predicted, counts), np.sqrt(untied))


def _unit_counts(predictions: Predictions) -> FloatArray:
    return np.ones(predictions.measured.shape)


METRICS = {
    metric.name: metric
    for metric in (
        Metric("pairwise", "pairwise", pairwise_beyond_noise, _pairwise_beyond_noise),
        Metric("pairwise_near_top", "pairwise near the top", pairwise_near_top, _pairwise_near_top),
        Metric("kendall_tau", "Kendall tau", kendall_tau, _kendall_tau),
        Metric("peak_at_1", "peak@1", peak_at_1),
        Metric("peak_at_5", "peak@5", peak_at_5),
        Metric("recall", f"the {BEST} best in the first {FIRST}", recall_of_best),
        Metric("regret", "regret", regret_of_best, in_percent=True),
        Metric("mape", "MAPE", mean_percentage_error, in_percent=True),
        Metric("coverage", "90 % interval holds", interval_coverage, in_percent=True),
        Metric("width", "its half width", interval_width, in_percent=True),
    )
}
"""The metrics by name, in the order of tables' columns."""


def _peak(predictions: Predictions, count: int) -> FloatArray:
    """Peak at `count`. Strategies with equal predictions keep their order."""
    chosen = np.argsort(predictions.predicted, axis=-1, kind="stable")[..., :count]
    fastest_chosen = np.take_along_axis(predictions.measured, chosen, axis=-1).min(axis=-1)
    return np.asarray(np.exp(predictions.measured.min(axis=-1) - fastest_chosen))


def _nothing(predictions: Predictions) -> FloatArray:
    return np.full(predictions.predicted.shape[:-1], np.nan)


def mean_of(metric: Callable[[Predictions], FloatArray], by_seed: Sequence[Predictions]) -> float:
    """Return the metric's mean over seeds; NaN without seeds."""
    return float(np.mean([metric(predictions) for predictions in by_seed])) if by_seed else math.nan


def second_look(first: FloatArray, second: FloatArray, deviation: float) -> Predictions:
    """Return second trials (r,) as predictions of the first trials: the accuracy of measuring itself."""
    return Predictions(second, first, np.full(len(first), deviation))


def best_possible_accuracy(agreement: float) -> float:
    """Return the upper bound of pairwise accuracy with perfect knowledge, from the share of pairs that repeats order
    equally.

    If a measured pair is in its true order with probability p, two measurements agree with p^2 + (1 - p)^2, so (2p -
    1)^2 = 2a - 1 for one pair; over pairs, the mean of 2p - 1 is at most the root of its mean square.
    """
    return (1 + math.sqrt(max(2 * agreement - 1, 0.0))) / 2


def best_possible_error(repeat_error: float) -> float:
    """Return the MAPE with perfect knowledge, from the MAPE of second trials: one measurement errs instead of two."""
    return repeat_error / math.sqrt(2)
