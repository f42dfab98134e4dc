"""Choice of candidates by the simulator's predictions, corrected by the measured times of similar strategies.

Notation: x is a strategy, f(x) the predicted log step seconds, y(x) the measured ones, t(x) the number of timings. The
residual y - f is a Gaussian process with mean m and covariance s^2 (r(x) r(x') k(x, x') + v / t(x) [x = x']), k as in
`DecisionCoder.kernel` with length l. r is the simulator's stated uncertainty, relative to its uncertainty about the
measured strategies; 1 for a simulator that states none. l and v are the likeliest of a small grid, m and s^2 the
likeliest given these two. The error of a learned simulator is mostly noise: then v is large, and its predictions stand.
With posterior mean mu and standard deviation sd, a candidate is worth its expected improvement,

    E[max(0, b - z(x))] = (b - mu) Phi(u) + sd phi(u),   u = (b - mu) / sd,   b = the least mu of a measured strategy

where z is the log step seconds without noise (Jones, Schonlau, Welch: "Efficient Global Optimization", 1998, eq. 15). b
is not a measured time, because the least measured time is a lucky one (Picheny, Wagner, Ginsbourger: "A benchmark of
kriging-based infill criteria for noisy optimization", 2013, section 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr

from autosync.numeric import FloatArray
from autosync.search.guided.decisions import DecisionCoder, Decisions
from autosync.search.ledger import Observation
from autosync.spec import Strategy

LENGTHS = (0.1, 0.3, 1.0)
NOISES = (0.02, 0.1, 0.5, 2.0, 8.0)
"""Candidates for the variance of one trial's noise, relative to s^2: v in the module's docstring."""

NOISES_OF_LEARNED = (2.0, 8.0)
"""Candidates for v with a simulator that states its uncertainty.

Such a simulator has learned from the same trials, and a few trials' noise is easily mistaken for a pattern. Its spread
includes that noise: the spread ranks predictions by certainty, but its size is not calibrated.
"""

PRIOR_SCALE = 0.2
"""Standard deviation of a residual, in log seconds, until enough strategies are measured to estimate it."""

LEAST_SCALE = 0.03
ENOUGH = 3
LEAST_VARIANCE = 1e-9


class Pick(NamedTuple):
    """A candidate to time."""

    place: int
    """The candidate's index in the pool."""
    gain: float
    """The expected improvement in log seconds."""


@final
@dataclass(frozen=True)
class Pool:
    """Strategies with their predictions."""

    decisions: Decisions
    predicted: FloatArray
    """Predicted log step seconds, float64 (n,)."""
    spread: FloatArray | None = None
    """The standard deviation of each prediction in log seconds, float64 (n,); None if the simulator states none."""

    @classmethod
    def concatenate(cls, pools: Sequence[Pool]) -> Pool:
        """Return the strategies of all pools. Empty pools do not count when deciding whether spreads are known."""
        pools = [pool for pool in pools if len(pool.predicted)] or pools
        decisions = Decisions.concatenate([pool.decisions for pool in pools])
        spreads = [pool.spread for pool in pools if pool.spread is not None]
        spread = np.concatenate(spreads) if len(spreads) == len(pools) else None
        return cls(decisions, np.concatenate([pool.predicted for pool in pools]), spread)

    def where(self, keep: npt.NDArray[np.bool_ | np.intp]) -> Pool:
        return Pool(self.decisions[keep], self.predicted[keep], None if self.spread is None else self.spread[keep])


@final
class Residuals:
    """Predicts the simulator's errors from the strategies measured so far.

    `log_seconds` is float64 (measured,): medians over `timings` trials each (None: one trial each).
    """

    def __init__(
        self, coder: DecisionCoder, measured: Pool, log_seconds: FloatArray, timings: Sequence[int] | None = None
    ) -> None:
        self._coder = coder
        self._measured = measured
        self._shares_of_noise: FloatArray = 1.0 / np.array(timings or np.ones(len(log_seconds)), np.float64)
        self._unit = PRIOR_SCALE
        if measured.spread is not None and len(measured.spread):
            self._unit = float(np.sqrt((measured.spread**2).mean()))
        noises = NOISES if measured.spread is None else NOISES_OF_LEARNED
        self.mean, self.scale, self.length, self.noise = 0.0, self._unit, LENGTHS[1], noises[1]
        self._lower: FloatArray = np.zeros((0, 0))
        self._whitened: FloatArray = np.zeros(0)
        self._kernels: dict[float, FloatArray] = {}
        if len(log_seconds):
            residuals = log_seconds - measured.predicted
            choices = [(length, noise) for length in LENGTHS for noise in noises]
            if len(log_seconds) < ENOUGH:
                choices = [(self.length, self.noise)]
            lengths = {length for length, _ in choices}
            self._kernels = {length: self._kernel(measured, measured, length) for length in lengths}
            self._condition(residuals, *max(choices, key=lambda choice: self._condition(residuals, *choice)))
            self.scale = max(self.scale, LEAST_SCALE)

    def _condition(self, residuals: FloatArray, length: float, noise: float) -> float:
        """Adopt these settings; return their log likelihood, maximized over mean and scale, up to a constant."""
        count = len(residuals)
        self.length, self.noise = length, noise
        self._lower = cholesky(self._kernels[length] + np.diag(noise * self._shares_of_noise), lower=True)
        ones = solve_triangular(self._lower, np.ones(count), lower=True)
        values = solve_triangular(self._lower, residuals, lower=True)
        self.mean = float(ones @ values / (ones @ ones))
        self._whitened = values - self.mean * ones
        if count >= ENOUGH:
            self.scale = math.sqrt(float(self._whitened @ self._whitened) / count) + LEAST_VARIANCE
        return -count * math.log(self.scale) - float(np.log(np.diag(self._lower)).sum())

    def posterior_mean(self, pool: Pool) -> FloatArray:
        """Return the posterior mean of the log seconds, float64 (n,)."""
        return self.posterior(pool)[0]

    def promise(self, pool: Pool) -> FloatArray:
        """Return log seconds that each strategy may well reach: one standard deviation below the mean, float64 (n,)."""
        means, deviations = self.posterior(pool)
        return means - deviations

    def posterior(self, pool: Pool) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the log seconds, float64 (n,) each."""
        explained = self._whitened_kernel(pool)
        variances = np.maximum(self._relative(pool) ** 2 - (explained**2).sum(0), LEAST_VARIANCE)
        return pool.predicted + self.mean + self._whitened @ explained, self.scale * np.sqrt(variances)

    def _whitened_kernel(self, pool: Pool) -> FloatArray:
        """Return L^-1 k(measured, pool), float64 (measured, n), which determines means and variances."""
        if not len(self._lower):
            return np.zeros((0, len(pool.predicted)))
        return np.asarray(solve_triangular(self._lower, self._kernel(self._measured, pool, self.length), lower=True))

    def _kernel(self, first: Pool, second: Pool, length: float) -> FloatArray:
        likeness = self._coder.kernel(first.decisions, second.decisions, length)
        return np.asarray(self._relative(first)[:, None] * likeness * self._relative(second))

    def _relative(self, pool: Pool) -> FloatArray:
        """Return the simulator's relative uncertainty of each strategy: r in the module's docstring, float64 (n,)."""
        return np.ones(len(pool.predicted)) if pool.spread is None else pool.spread / self._unit


@final
@dataclass(frozen=True)
class Evidence:
    """Timed strategies with their residuals."""

    observations: Sequence[Observation]
    residuals: Residuals
    expected: FloatArray
    """The log step seconds that the strategies should take without noise, float64 (n,)."""

    @classmethod
    def of(
        cls, observations: Sequence[Observation], coder: DecisionCoder, pool_of: Callable[[list[Strategy]], Pool]
    ) -> Evidence:
        pool = pool_of([observation.strategy for observation in observations])
        log_seconds = np.log(np.array([observation.median_seconds for observation in observations]))
        residuals = Residuals(coder, pool, log_seconds, [observation.timings for observation in observations])
        return cls(observations, residuals, residuals.posterior_mean(pool))

    @property
    def best(self) -> float | None:
        """The expected log step seconds of the fastest strategy; None if none was timed."""
        return float(self.expected.min()) if len(self.expected) else None

    def leaders(self, count: int) -> list[Observation]:
        """Return the `count` strategies with the least expected time, fastest first.

        A single lucky timing does not make a strategy a leader.
        """
        return [self.observations[place] for place in np.argsort(self.expected, kind="stable")[:count]]


def best_picks(residuals: Residuals, pool: Pool, best: float | None, count: int) -> list[Pick]:
    """Return the `count` candidates with the largest expected improvement, best first.

    `best` is b in the module's docstring; None if no strategy was timed.
    """
    means, deviations = residuals.posterior(pool)
    least = means.min(initial=math.inf) if best is None else best
    gains = expected_improvement(means, deviations, least)
    # If no candidate promises an improvement, all gains are zero; the means still rank the candidates.
    return [Pick(int(place), float(gains[place])) for place in np.lexsort((means, -gains))[:count]]


def expected_improvement(means: FloatArray, deviations: FloatArray, best: float) -> FloatArray:
    """Return the expected amount by which each candidate is faster than `best`, in log seconds, float64 (n,)."""
    z = (best - means) / deviations
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    gains: FloatArray = (best - means) * ndtr(z) + deviations * density
    return np.maximum(gains, 0.0)
