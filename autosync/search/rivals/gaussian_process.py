"""Bayesian optimization: a Gaussian process over points, and the candidate with the largest expected improvement.

Snoek, Larochelle, Adams: "Practical Bayesian Optimization of Machine Learning Algorithms", 2012: a Matérn 5/2 kernel,
likeliest hyperparameters, and the mean in place of what is being timed. scikit-learn's regressor is taken and not
Optuna's `GPSampler`, since it can be asked about the strategies that there are.
"""

import random
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, final

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from autosync.search.guided.acquisition import expected_improvement
from autosync.search.rivals.encoding import Encoding, as_columns
from autosync.search.rivals.knobs import Knobs
from autosync.search.rivals.one_by_one import STARTUP, Known, OneByOneSearch, one_by_one
from autosync.search.rivals.per_variable import PerVariable
from autosync.search.searcher import Asked
from autosync.spec import Strategy

Floats = npt.NDArray[np.float64]

MOST_CANDIDATES = 1000
KEPT_POINTS = 1000
"""The most strategies whose points are kept, those met last: those of a small space are met at each choice."""

LEAST_DEVIATION = 1e-6
GROWTH = 1.2


@final
class GaussianProcessChooser:
    """One length for all dimensions, since there are many more of them than trials.

    Hyperparameters are the likeliest given the first 10, 12, 14, 17, ... observations, a fifth more each time: to find
    them takes most of the time, and they hardly change from one observation to the next.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.name = f"gp{encoding.suffix}"
        self._encoding = encoding
        self._point = lru_cache(KEPT_POINTS)(encoding.point)
        self._kernel: tuple[bytes, Any] = b"", None

    def choose(self, known: Known, rng: random.Random) -> Strategy | None:
        candidates = self._candidates(known, rng)
        if not candidates or not self._encoding.dimensions:
            return None
        log_seconds = np.log([each.median_seconds for each in known.observations])
        points = self._columns([each.strategy for each in known.observations])
        process = _regressor(self._likeliest(points, log_seconds), optimizer=None).fit(points, log_seconds)
        best = float(process.predict(points).min())  # and not the least measured, which was lucky
        under_way = self._columns(known.under_way)
        if len(under_way):
            believed = np.concatenate([log_seconds, process.predict(under_way)])
            process = _regressor(process.kernel, optimizer=None).fit(np.concatenate([points, under_way]), believed)
        means, deviations = process.predict(self._columns(candidates), return_std=True)
        gains = expected_improvement(means, np.maximum(deviations, LEAST_DEVIATION), best)
        return candidates[int(np.lexsort((means, -gains))[0])]

    def _likeliest(self, points: Floats, log_seconds: Floats) -> Any:
        """The kernel with the likeliest hyperparameters given the first `_settled` observations."""
        count = _settled(len(log_seconds))
        known = points[:count].tobytes() + log_seconds[:count].tobytes()
        if self._kernel[0] != known:
            self._kernel = known, _likeliest_kernel(points[:count], log_seconds[:count])
        return self._kernel[1]

    def _candidates(self, known: Known, rng: random.Random) -> list[Strategy]:
        """New strategies in random order, so that no order decides between equal points."""
        left = known.ledger.left()
        if left is None:
            timed = sorted(known.observations, key=lambda each: each.median_seconds)
            candidates = self._encoding.candidates([each.strategy for each in timed], rng)
            left = [each for each in candidates if known.ledger.is_new(each)]
        return rng.sample(left, min(len(left), MOST_CANDIDATES))

    def _columns(self, strategies: Sequence[Strategy]) -> Floats:
        return as_columns(self._encoding.dimensions, [self._point(each) for each in strategies])


def _settled(count: int) -> int:
    """The greatest of 10, 12, 14, 17, ... that is at most `count`."""
    found = min(count, STARTUP)
    while found and (after := max(found + 1, round(found * GROWTH))) <= count:
        found = after
    return found


def _likeliest_kernel(points: Floats, log_seconds: Floats) -> Any:
    usual = max(1.0, float(np.sqrt(points.shape[1])) / 2)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(usual, (usual / 20, usual * 20), nu=2.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # hyperparameters at their bounds are fine
        return _regressor(kernel + WhiteKernel(1e-2, (1e-4, 1.0))).fit(points, log_seconds).kernel_


def _regressor(kernel: Any, **more: Any) -> GaussianProcessRegressor:
    return GaussianProcessRegressor(kernel, normalize_y=True, **more)


def gp(asked: Asked) -> OneByOneSearch:
    """Bayesian optimization on every variable's decision."""
    return one_by_one(asked, GaussianProcessChooser(PerVariable(asked.space)))


def gp_on_knobs(asked: Asked) -> OneByOneSearch:
    """Bayesian optimization on a few knobs."""
    return one_by_one(asked, GaussianProcessChooser(Knobs(asked.space)))
