"""Which candidates are worth timing: the simulator's forecast, corrected by what strategies alike really took.

Notation: x is a strategy, f(x) the forecast of log step seconds, y(x) what was measured. The residual y - f is a
Gaussian process with mean m and covariance s^2 (k(x, x') + v [x = x']), k as in `DecisionCoder.kernel` with length l;
l and v are the likeliest of a small grid, m and s^2 the likeliest given them. With posterior mean mu and standard
deviation sd, a candidate is worth its expected improvement,

    E[max(0, b - y(x))] = (b - mu) Phi(z) + sd phi(z),   z = (b - mu) / sd,   b = the least y measured

(Jones, Schonlau, Welch: "Efficient Global Optimization", 1998, eq. 15). A batch is picked one by one: each pick, and
each strategy still being timed, lowers the uncertainty around it as if its forecast had come true (the "kriging
believer" of Ginsbourger, Le Riche, Carraro, 2010), which keeps the batch diverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr

from autosync.search.decisions import DecisionCoder, Decisions

__all__ = ["Pool", "Residuals", "Uncertainty", "best_batch", "expected_improvement"]

Floats = npt.NDArray[np.float64]

LENGTHS = (0.1, 0.3, 1.0)
NOISES = (0.02, 0.1, 0.5)
PRIOR_SCALE = 0.2
"""Standard deviation of a residual, in log seconds, before enough is measured to estimate it."""

LEAST_SCALE = 0.03
ENOUGH = 3
LEAST_VARIANCE = 1e-9


@final
@dataclass(frozen=True)
class Pool:
    """Strategies with their forecast log step seconds, float64 (n,)."""

    decisions: Decisions
    forecast: Floats

    @classmethod
    def joined(cls, pools: Sequence[Pool]) -> Pool:
        decisions = Decisions.joined([each.decisions for each in pools])
        return cls(decisions, np.concatenate([each.forecast for each in pools]))

    def where(self, keep: npt.NDArray[np.bool_]) -> Pool:
        return Pool(self.decisions[keep], self.forecast[keep])


@final
class Residuals:
    """What measured strategies tell of the simulator's errors elsewhere; `log_seconds` is float64 (measured,)."""

    def __init__(self, coder: DecisionCoder, measured: Pool, log_seconds: Floats) -> None:
        self._coder = coder
        self._decisions = measured.decisions
        self.best = float(log_seconds.min()) if len(log_seconds) else None
        self.mean, self.scale, self.length, self.noise = 0.0, PRIOR_SCALE, LENGTHS[1], NOISES[1]
        self._lower: Floats = np.zeros((0, 0))
        self._whitened: Floats = np.zeros(0)
        if len(log_seconds):
            residuals = log_seconds - measured.forecast
            choices = [(length, noise) for length in LENGTHS for noise in NOISES]
            if len(log_seconds) < ENOUGH:
                choices = [(self.length, self.noise)]
            self._condition(residuals, *max(choices, key=lambda choice: self._condition(residuals, *choice)))
            self.scale = max(self.scale, LEAST_SCALE)

    def _condition(self, residuals: Floats, length: float, noise: float) -> float:
        """Take these settings; returns their log likelihood, maximal over mean and scale, up to a constant."""
        count = len(residuals)
        self.length, self.noise = length, noise
        self._lower = cholesky(self._kernel(self._decisions, self._decisions) + noise * np.eye(count), lower=True)
        ones = solve_triangular(self._lower, np.ones(count), lower=True)
        values = solve_triangular(self._lower, residuals, lower=True)
        self.mean = float(ones @ values / (ones @ ones))
        self._whitened = values - self.mean * ones
        if count >= ENOUGH:
            self.scale = math.sqrt(float(self._whitened @ self._whitened) / count) + LEAST_VARIANCE
        return -count * math.log(self.scale) - float(np.log(np.diag(self._lower)).sum())

    def expected(self, pool: Pool) -> Floats:
        """Posterior mean of log seconds, float64 (n,)."""
        return self._expected(pool, self._explained(pool.decisions))

    def promise(self, pool: Pool) -> Floats:
        """Log seconds that each strategy may well reach: a standard deviation under the mean, float64 (n,)."""
        explained = self._explained(pool.decisions)
        variances = np.maximum(1.0 - (explained**2).sum(0), 0.0)
        optimistic: Floats = self._expected(pool, explained) - self.scale * np.sqrt(variances)
        return optimistic

    def uncertainty(self, decisions: Decisions) -> Uncertainty:
        """What is not known of strategies that decide so."""

        def kernel_row(row: int) -> Floats:
            likeness: Floats = self._kernel(decisions[row : row + 1], decisions)[0]
            return likeness

        return Uncertainty(self._explained(decisions), self.noise, kernel_row)

    def _expected(self, pool: Pool, explained: Floats) -> Floats:
        corrected: Floats = pool.forecast + self.mean + self._whitened @ explained
        return corrected

    def _explained(self, decisions: Decisions) -> Floats:
        """float64 (measured, n): L^-1 k(measured, decisions), from which means and variances follow."""
        if not len(self._decisions):
            return np.zeros((0, len(decisions)))
        return np.asarray(solve_triangular(self._lower, self._kernel(self._decisions, decisions), lower=True))

    def _kernel(self, first: Decisions, second: Decisions) -> Floats:
        return self._coder.kernel(first, second, self.length)


@final
class Uncertainty:
    """Variances of some strategies' residuals, in units of s^2, that shrink as more is believed."""

    def __init__(self, explained: Floats, noise: float, kernel_row: Callable[[int], Floats]) -> None:
        self._explained = explained
        self._noise = noise
        self._kernel_row = kernel_row
        self.variances: Floats = np.maximum(1.0 - (explained**2).sum(0), LEAST_VARIANCE)

    def believe(self, index: int) -> None:
        """Take strategy `index` as measured: one more row of the Cholesky factor."""
        covariances = self._kernel_row(index) - self._explained[:, index] @ self._explained
        row = covariances / math.sqrt(self.variances[index] + self._noise)
        self._explained = np.vstack([self._explained, row])
        self.variances = np.maximum(self.variances - row**2, LEAST_VARIANCE)


def best_batch(residuals: Residuals, pool: Pool, pending: Pool, count: int) -> list[int]:
    """Indices of the `count` candidates to time together, best first. `pending` are strategies being timed now."""
    size = len(pool.forecast)
    everything = Pool.joined([pool, pending])
    means = residuals.expected(everything)
    uncertainty = residuals.uncertainty(everything.decisions)
    best = math.inf if residuals.best is None else residuals.best
    for index in range(size, size + len(pending.forecast)):
        uncertainty.believe(index)
        best = min(best, means[index])
    if math.isinf(best):
        best = float(means.min())
    picks: list[int] = []
    while len(picks) < min(count, size):
        gains = expected_improvement(means[:size], residuals.scale * np.sqrt(uncertainty.variances[:size]), best)
        gains[picks] = -1.0
        # Where no candidate promises an improvement, all gains are zero; the means still tell better from worse.
        picks.append(int(np.lexsort((means[:size], -gains))[0]))
        uncertainty.believe(picks[-1])
        best = min(best, means[picks[-1]])
    return picks


def expected_improvement(means: Floats, deviations: Floats, best: float) -> Floats:
    """By how much each candidate is expected to lie under `best`, all in log seconds, float64 (n,)."""
    z = (best - means) / deviations
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    gains: Floats = (best - means) * ndtr(z) + deviations * density
    return np.maximum(gains, 0.0)
