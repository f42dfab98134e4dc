"""Choosing candidates worth timing by the simulator's predictions, corrected by what strategies alike really took.

Notation: x is a strategy, f(x) the predicted log step seconds, y(x) what was measured, t(x) how often. The residual
y - f is a Gaussian process with mean m and covariance s^2 (r(x) r(x') k(x, x') + v / t(x) [x = x']), k as in
`DecisionCoder.kernel` with length l. r is how sure the simulator says it is, relative to what it says of the measured
strategies; 1 for one that does not say. l and v are the likeliest of a small grid, m and s^2 the likeliest given them:
what a learned simulator misses is mostly noise, v large, and then its predictions stand. With posterior mean mu and
standard deviation sd, a candidate is worth its expected improvement,

    E[max(0, b - z(x))] = (b - mu) Phi(u) + sd phi(u),   u = (b - mu) / sd,   b = the least mu of a measured strategy

for z what it takes but for noise (Jones, Schonlau, Welch: "Efficient Global Optimization", 1998, eq. 15). b is no
measured time, of which the least is a lucky one (Picheny, Wagner, Ginsbourger: "A benchmark of kriging-based infill
criteria for noisy optimization", 2013, section 3.1).
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

from autosync.search.guided.decisions import DecisionCoder, Decisions
from autosync.search.ledger import Observation
from autosync.spec import Strategy

Floats = npt.NDArray[np.float64]

LENGTHS = (0.1, 0.3, 1.0)
NOISES = (0.02, 0.1, 0.5, 2.0, 8.0)
"""Candidates for the variance of one trial's noise, over s^2: v in the module's head."""

NOISES_OF_LEARNED = (2.0, 8.0)
"""The same for a simulator that says how sure it is: it has learned what it could from the same trials, and in a few of
them noise is easily taken for more. Its spread holds that noise too: it tells of what it is surer, but not how sure."""

PRIOR_SCALE = 0.2
"""Standard deviation of a residual, in log seconds, before enough is measured to estimate it."""

LEAST_SCALE = 0.03
ENOUGH = 3
LEAST_VARIANCE = 1e-9


class Pick(NamedTuple):
    """A candidate to time, by its place in the pool, and its expected improvement in log seconds."""

    place: int
    gain: float


@final
@dataclass(frozen=True)
class Pool:
    """Strategies with their predicted log step seconds, float64 (n,).

    `spread`, where the simulator says, is the standard deviation of each prediction, in log seconds, float64 (n,).
    """

    decisions: Decisions
    predicted: Floats
    spread: Floats | None = None

    @classmethod
    def joined(cls, pools: Sequence[Pool]) -> Pool:
        """The strategies of all pools. An empty pool has no say in whether spreads are known."""
        pools = [each for each in pools if len(each.predicted)] or pools
        decisions = Decisions.joined([each.decisions for each in pools])
        spreads = [each.spread for each in pools if each.spread is not None]
        spread = np.concatenate(spreads) if len(spreads) == len(pools) else None
        return cls(decisions, np.concatenate([each.predicted for each in pools]), spread)

    def where(self, keep: npt.NDArray[np.bool_ | np.intp]) -> Pool:
        return Pool(self.decisions[keep], self.predicted[keep], None if self.spread is None else self.spread[keep])


@final
class Residuals:
    """What measured strategies tell of the simulator's errors on others.

    `log_seconds` is float64 (measured,), each the median of so many `timings`, 1 unless given.
    """

    def __init__(
        self, coder: DecisionCoder, measured: Pool, log_seconds: Floats, timings: Sequence[int] | None = None
    ) -> None:
        self._coder = coder
        self._measured = measured
        self._shares_of_noise: Floats = 1.0 / np.array(timings or np.ones(len(log_seconds)), np.float64)
        self._unit = PRIOR_SCALE
        if measured.spread is not None and len(measured.spread):
            self._unit = float(np.sqrt((measured.spread**2).mean()))
        noises = NOISES if measured.spread is None else NOISES_OF_LEARNED
        self.mean, self.scale, self.length, self.noise = 0.0, self._unit, LENGTHS[1], noises[1]
        self._lower: Floats = np.zeros((0, 0))
        self._whitened: Floats = np.zeros(0)
        self._kernels: dict[float, Floats] = {}
        if len(log_seconds):
            residuals = log_seconds - measured.predicted
            choices = [(length, noise) for length in LENGTHS for noise in noises]
            if len(log_seconds) < ENOUGH:
                choices = [(self.length, self.noise)]
            lengths = {length for length, _ in choices}
            self._kernels = {length: self._kernel(measured, measured, length) for length in lengths}
            self._condition(residuals, *max(choices, key=lambda choice: self._condition(residuals, *choice)))
            self.scale = max(self.scale, LEAST_SCALE)

    def _condition(self, residuals: Floats, length: float, noise: float) -> float:
        """Take these settings; return their log likelihood, maximal over mean and scale, up to a constant."""
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

    def expected(self, pool: Pool) -> Floats:
        """Posterior mean of log seconds, float64 (n,)."""
        return self.posterior(pool)[0]

    def promise(self, pool: Pool) -> Floats:
        """Log seconds that each strategy may well reach: one standard deviation below the mean, float64 (n,)."""
        means, deviations = self.posterior(pool)
        return means - deviations

    def posterior(self, pool: Pool) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log seconds, float64 (n,) each."""
        explained = self._explained(pool)
        variances = np.maximum(self._relative(pool) ** 2 - (explained**2).sum(0), LEAST_VARIANCE)
        return pool.predicted + self.mean + self._whitened @ explained, self.scale * np.sqrt(variances)

    def _explained(self, pool: Pool) -> Floats:
        """float64 (measured, n): L^-1 k(measured, pool), from which means and variances follow."""
        if not len(self._lower):
            return np.zeros((0, len(pool.predicted)))
        return np.asarray(solve_triangular(self._lower, self._kernel(self._measured, pool, self.length), lower=True))

    def _kernel(self, first: Pool, second: Pool, length: float) -> Floats:
        likeness = self._coder.kernel(first.decisions, second.decisions, length)
        return np.asarray(self._relative(first)[:, None] * likeness * self._relative(second))

    def _relative(self, pool: Pool) -> Floats:
        """How sure the simulator is of each strategy: r in the module's head, float64 (n,)."""
        return np.ones(len(pool.predicted)) if pool.spread is None else pool.spread / self._unit


@final
@dataclass(frozen=True)
class Evidence:
    """Timed strategies, and the log step seconds, float64 (n,), that they are expected to take without noise."""

    observations: Sequence[Observation]
    residuals: Residuals
    expected: Floats

    @classmethod
    def of(
        cls, observations: Sequence[Observation], coder: DecisionCoder, pool_of: Callable[[list[Strategy]], Pool]
    ) -> Evidence:
        pool = pool_of([each.strategy for each in observations])
        log_seconds = np.log(np.array([each.median_seconds for each in observations]))
        residuals = Residuals(coder, pool, log_seconds, [each.timings for each in observations])
        return cls(observations, residuals, residuals.expected(pool))

    @property
    def best(self) -> float | None:
        """Log step seconds of the leader."""
        return float(self.expected.min()) if len(self.expected) else None

    def leaders(self, count: int) -> list[Observation]:
        """The strategies expected to be fastest, fastest first. A lucky timing alone makes no strategy a leader."""
        return [self.observations[place] for place in np.argsort(self.expected, kind="stable")[:count]]


def best_picks(residuals: Residuals, pool: Pool, best: float | None, count: int) -> list[Pick]:
    """The `count` candidates most worth timing, best first; `best` is b in the module's head, None if none is timed."""
    means, deviations = residuals.posterior(pool)
    least = means.min(initial=math.inf) if best is None else best
    gains = expected_improvement(means, deviations, least)
    # Where no candidate promises an improvement, all gains are zero; the means still tell better from worse.
    return [Pick(int(place), float(gains[place])) for place in np.lexsort((means, -gains))[:count]]


def expected_improvement(means: Floats, deviations: Floats, best: float) -> Floats:
    """The gain expected of each candidate, which is how far it lies under `best`, all in log seconds, float64 (n,)."""
    z = (best - means) / deviations
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    gains: Floats = (best - means) * ndtr(z) + deviations * density
    return np.maximum(gains, 0.0)
