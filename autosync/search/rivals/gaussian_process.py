"""Bayesian optimization: a Gaussian process over points, and the candidate with the largest expected improvement.

Snoek, Larochelle, Adams: "Practical Bayesian Optimization of Machine Learning Algorithms", 2012: a Matérn 5/2 kernel,
likeliest hyperparameters, and the mean instead of a time for strategies under way. This searcher uses scikit-learn's
regressor instead of Optuna's `GPSampler`, because the regressor can predict any strategies passed to it.
"""

import random
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, final

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from autosync.numeric import FloatArray
from autosync.search.guided.acquisition import expected_improvement
from autosync.search.rivals.encoding import Encoding, as_columns
from autosync.search.rivals.knobs import Knobs
from autosync.search.rivals.one_by_one import STARTUP, Known, OneByOneSearch, one_by_one
from autosync.search.rivals.per_variable import PerVariable
from autosync.search.searcher import SearcherArguments
from autosync.spec import Strategy

MOST_CANDIDATES = 1000
KEPT_POINTS = 1000
"""The most strategies whose points are cached, the last ones used. A small space's strategies are used at every choice.
"""

LEAST_DEVIATION = 1e-6
GROWTH = 1.2


@final
class GaussianProcessChooser:
    """Uses one length for all dimensions, because dimensions far outnumber trials.

    Hyperparameters are the likeliest given the first 10, 12, 14, 17, ... observations, a fifth more each time. Their
    fit takes most of the time, and they hardly change from one observation to the next.
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
        log_seconds = np.log([observation.median_seconds for observation in known.observations])
        points = self._columns([observation.strategy for observation in known.observations])
        process = _regressor(self._likeliest(points, log_seconds), optimizer=None).fit(points, log_seconds)
        best = float(process.predict(points).min())  # not the least measured time, which was lucky
        under_way = self._columns(known.under_way)
        if len(under_way):
            believed = np.concatenate([log_seconds, process.predict(under_way)])
            process = _regressor(process.kernel, optimizer=None).fit(np.concatenate([points, under_way]), believed)
        means, deviations = process.predict(self._columns(candidates), return_std=True)
        gains = expected_improvement(means, np.maximum(deviations, LEAST_DEVIATION), best)
        return candidates[int(np.lexsort((means, -gains))[0])]

    def _likeliest(self, points: FloatArray, log_seconds: FloatArray) -> Any:
        """Return the kernel with the likeliest hyperparameters given the first `_observations_for_fit` observations."""
        count = _observations_for_fit(len(log_seconds))
        known = points[:count].tobytes() + log_seconds[:count].tobytes()
        if self._kernel[0] != known:
            self._kernel = known, _likeliest_kernel(points[:count], log_seconds[:count])
        return self._kernel[1]

    def _candidates(self, known: Known, rng: random.Random) -> list[Strategy]:
        """Return new strategies in random order, so that ties between equal points are broken at random."""
        left = known.ledger.left()
        if left is None:
            timed = sorted(known.observations, key=lambda observation: observation.median_seconds)
            candidates = self._encoding.candidates([observation.strategy for observation in timed], rng)
            left = [strategy for strategy in candidates if known.ledger.is_new(strategy)]
        return rng.sample(left, min(len(left), MOST_CANDIDATES))

    def _columns(self, strategies: Sequence[Strategy]) -> FloatArray:
        return as_columns(self._encoding.dimensions, [self._point(strategy) for strategy in strategies])


def _observations_for_fit(count: int) -> int:
    """Return the greatest of 10, 12, 14, 17, ... that is at most `count`."""
    size = min(count, STARTUP)
    while size and (after := max(size + 1, round(size * GROWTH))) <= count:
        size = after
    return size


def _likeliest_kernel(points: FloatArray, log_seconds: FloatArray) -> Any:
    usual = max(1.0, float(np.sqrt(points.shape[1])) / 2)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(usual, (usual / 20, usual * 20), nu=2.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # hyperparameters at their bounds are fine
        return _regressor(kernel + WhiteKernel(1e-2, (1e-4, 1.0))).fit(points, log_seconds).kernel_


def _regressor(kernel: Any, **more: Any) -> GaussianProcessRegressor:
    return GaussianProcessRegressor(kernel, normalize_y=True, **more)


def gp(arguments: SearcherArguments) -> OneByOneSearch:
    """Return Bayesian optimization over every variable's decision."""
    return one_by_one(arguments, GaussianProcessChooser(PerVariable(arguments.space)))


def gp_on_knobs(arguments: SearcherArguments) -> OneByOneSearch:
    """Return Bayesian optimization over a few knobs."""
    return one_by_one(arguments, GaussianProcessChooser(Knobs(arguments.space)))
