"""Which candidates are worth timing: the simulator's forecast, corrected by what nearby strategies really took.

Notation: x is a strategy, f(x) the forecast of log step seconds, y(x) what was measured. The residual y - f is a
Gaussian process with mean m and covariance s^2 (exp(-d(x, x') / l) + v [x = x']), d as in `DecisionCoder`; l and v are
the likeliest of a small grid, m and s^2 the likeliest given them. A candidate is worth its expected improvement,

    E[max(0, b - y(x))] = (b - mu) Phi(z) + sd phi(z),   z = (b - mu) / sd,   b = the least y measured

(Jones, Schonlau, Welch: "Efficient Global Optimization", 1998, eq. 15). A batch is picked one by one: each pick, and
each strategy still being timed, lowers the uncertainty around it as if its forecast had come true (the "kriging
believer" of Ginsbourger, Le Riche, Carraro, 2010), which keeps the batch diverse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr

from autosync.search.decisions import DecisionCoder

__all__ = ["Pool", "Residuals", "best_batch"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

LENGTHS = (0.1, 0.3, 1.0)
NOISES = (0.05, 0.3, 1.0)
PRIOR_SCALE = 0.2
"""Standard deviation of a residual, in log seconds, before anything is measured."""

LEAST_SCALE = 0.03


@final
@dataclass(frozen=True)
class Pool:
    """Candidates: decision codes int32 (n, variables) and forecast log seconds float64 (n,)."""

    codes: Codes
    forecast: Floats


@final
class Residuals:
    """What measured strategies tell about the simulator's errors elsewhere."""

    def __init__(self, coder: DecisionCoder, measured: Pool, log_seconds: Floats) -> None:
        self._coder = coder
        self._codes = measured.codes
        self.best = float(log_seconds.min()) if len(log_seconds) else None
        self.mean, self.scale, self.length, self.noise = 0.0, PRIOR_SCALE, LENGTHS[1], NOISES[1]
        self._lower: Floats = np.zeros((0, 0))
        self._whitened: Floats = np.zeros(0)
        if len(log_seconds) >= 3:
            self._learn(log_seconds - measured.forecast)
        elif len(log_seconds):
            self._condition(log_seconds - measured.forecast, self.length, self.noise)

    def _learn(self, residuals: Floats) -> None:
        choices = [(length, noise) for length in LENGTHS for noise in NOISES]
        self._condition(residuals, *max(choices, key=lambda choice: self._condition(residuals, *choice)))
        self.scale = max(self.scale, LEAST_SCALE)

    def _condition(self, residuals: Floats, length: float, noise: float) -> float:
        """Take these settings; returns their log likelihood, maximal over mean and scale, up to a constant."""
        count = len(residuals)
        kernel = np.exp(-self._coder.distances(self._codes, self._codes) / length) + noise * np.eye(count)
        self.length, self.noise = length, noise
        self._lower = cholesky(kernel, lower=True)
        ones = solve_triangular(self._lower, np.ones(count), lower=True)
        values = solve_triangular(self._lower, residuals, lower=True)
        self.mean = float(ones @ values / (ones @ ones))
        self._whitened = values - self.mean * ones
        if count >= 3:
            self.scale = math.sqrt(float(self._whitened @ self._whitened) / (count - 1)) + 1e-9
        return -count * math.log(self.scale) - float(np.log(np.diag(self._lower)).sum())

    def explained(self, pool: Pool) -> Floats:
        """float64 (measured, n): L^-1 k(measured, pool), from which means and variances follow."""
        if not len(self._codes):
            return np.zeros((0, len(pool.codes)))
        kernel = np.exp(-self._coder.distances(self._codes, pool.codes) / self.length)
        return np.asarray(solve_triangular(self._lower, kernel, lower=True))

    def expected(self, pool: Pool, explained: Floats) -> Floats:
        """Posterior mean of log seconds, float64 (n,)."""
        corrected: Floats = pool.forecast + self.mean + self._whitened @ explained
        return corrected

    def kernel_to(self, pool: Pool, row: Codes) -> Floats:
        return np.exp(-self._coder.distances(row[None, :], pool.codes)[0] / self.length)


def best_batch(residuals: Residuals, pool: Pool, pending: Codes, count: int) -> tuple[list[int], Floats]:
    """The `count` candidates to time together, best first, and the posterior mean log seconds of all, float64 (n,).

    `pending`, int32 (p, variables), are strategies being timed now.
    """
    explained = residuals.explained(pool)
    means = residuals.expected(pool, explained)
    variances = np.maximum(1.0 - (explained**2).sum(0), 1e-9)
    best = residuals.best if residuals.best is not None else float(means.min())
    picks: list[int] = []
    for row in pending:
        explained, variances = _believed(residuals, pool, row, explained, variances)
    for _ in range(min(count, len(means))):
        gains = expected_improvement(means, residuals.scale * np.sqrt(variances), best)
        # Where nothing promises an improvement, all gains are zero; the means still tell the better from the worse.
        order = np.lexsort((means, -gains))
        pick = next(int(index) for index in order if int(index) not in picks)
        picks.append(pick)
        explained, variances = _believed(residuals, pool, pool.codes[pick], explained, variances)
    return picks, means


def expected_improvement(means: Floats, deviations: Floats, best: float) -> Floats:
    """By how much each candidate is expected to lie under `best`, all in log seconds, float64 (n,)."""
    z = (best - means) / deviations
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    gains: Floats = (best - means) * ndtr(z) + deviations * density
    return gains


