"""The oracle: a search that knows everything except the noise, as a reference for searchers.

The noise-free times of a pool's strategies are unknown; only a distribution over them can be estimated. The
distribution of times over a pool is the nonparametric maximum-likelihood estimate from the measurements (Kiefer,
Wolfowitz: "Consistency of the maximum likelihood estimator in the presence of infinitely many incidental parameters",
1956). It is computed by expectation maximization (Laird: "Nonparametric maximum likelihood estimation of a mixing
distribution", 1978). A strategy's time then follows by Bayes' rule. Each search draws its own times.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import final

import numpy as np
from scipy.stats import norm

from autosync.numeric import FloatArray
from autosync.search.protocol import Proposal
from autosync.search.searcher import LedgerSearch
from autosync.spec import RuntimeRecord, Strategy
from autosync.tune.recorded.cells import RecordedCell

POINTS_A_DEVIATION = 4
MOST_POINTS = 2000
ROUNDS = 300


@final
class IdealSearch(LedgerSearch):
    """Proposes its baselines in their order, even if the number of trials is smaller."""

    name = "random"

    def baselines_left(self) -> int:
        return 0

    def _next(self) -> Proposal | None:
        return None


def ideal_order(cell: RecordedCell, seed: int) -> list[Strategy]:
    """Return the pool's strategies by increasing noise-free time as drawn by `seed`; strategies that failed come
    last."""
    drawn = draw_times(cell, seed)
    return sorted(drawn, key=drawn.__getitem__) + [strategy for strategy in cell.trials if strategy not in drawn]


def draw_times(cell: RecordedCell, seed: int) -> dict[Strategy, float]:
    """Draw noise-free log seconds of the timed strategies from their posterior distribution."""
    timed = [strategy for strategy, seconds in cell.seconds.items() if math.isfinite(seconds)]
    points, chances = _posterior(cell)
    drawn = _draw_points(points, chances, np.random.default_rng(seed))
    return dict(zip(timed, drawn.tolist(), strict=True))


def noise_free(measured: FloatArray, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Estimate the noise-free values behind `measured` (n,), whose noise has the standard `deviations` (n,).

    Returns points (p,) and probabilities (n, p): the chance that each point is the noise-free value. Rows sum to one.
    """
    least, most = float(measured.min()), float(measured.max())
    count = math.ceil(POINTS_A_DEVIATION * (most - least) / float(deviations.min())) + 1
    points = np.linspace(least, most, min(max(count, 2), MOST_POINTS))
    logs = -0.5 * ((measured[:, None] - points) / deviations[:, None]) ** 2
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = np.full(len(points), 1 / len(points))
    for _ in range(ROUNDS):
        chances = likelihood * prior
        chances /= chances.sum(axis=1, keepdims=True)
        prior = chances.mean(axis=0)
    return points, chances


@lru_cache(maxsize=1)
def _posterior(cell: RecordedCell) -> tuple[FloatArray, FloatArray]:
    """Return `noise_free` of the timed strategies' log seconds; cached for the last cell."""
    trials = [records for strategy, records in cell.trials.items() if math.isfinite(cell.seconds[strategy])]
    measured = np.log([seconds for seconds in cell.seconds.values() if math.isfinite(seconds)])
    timings = np.array([sum(record.timed for record in records) for records in trials])
    return noise_free(measured, cell.deviation / np.sqrt(timings))


def _draw_points(points: FloatArray, chances: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw one point per row by the row's probabilities (n,), plus up to half a step of jitter, which breaks ties."""
    places = (np.cumsum(chances, axis=1) < rng.random((len(chances), 1))).sum(axis=1)
    step = points[1] - points[0]
    return np.asarray(points[np.minimum(places, len(points) - 1)] + 0.5 * step * rng.random(len(chances)))


TRIALS = 16
"""Trials of each strategy, one at each of 16 quantiles of the noise, so that the median is the noise-free time. A
search sees the trials in an order drawn by its seed."""


def draw_cell(cell: RecordedCell, seed: int) -> RecordedCell:
    """Return `cell` with times drawn by `seed`, as another day might have measured them; failed strategies still
    fail."""
    noise = cell.deviation * norm.ppf((np.arange(TRIALS) + 0.5) / TRIALS)
    trials = dict(cell.trials)
    for strategy, noise_free_log in draw_times(cell, seed).items():
        timed = next(record for record in cell.trials[strategy] if record.timed)
        trials[strategy] = tuple(_scale_to(timed, math.exp(noise_free_log + error)) for error in noise.tolist())
    return replace(cell, trials=trials)


def _scale_to(record: RuntimeRecord, seconds: float) -> RuntimeRecord:
    """Return the record with its steps scaled to a median of `seconds`."""
    assert record.median_seconds is not None
    scale = seconds / record.median_seconds
    return replace(record, step_seconds=tuple(scale * step for step in record.step_seconds))
