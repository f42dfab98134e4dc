"""What a search could do that knew everything but the noise: a reference for what searchers do.

What a pool's strategies take without noise is not known, only how likely each value is. How such times are spread over
a pool is the likeliest distribution given what was measured, of no assumed shape (Kiefer, Wolfowitz: "Consistency of
the maximum likelihood estimator in the presence of infinitely many incidental parameters", 1956), found by expectation
maximization (Laird: "Nonparametric maximum likelihood estimation of a mixing distribution", 1978); then a strategy's
time follows by Bayes' rule. Each search draws anew.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import final

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from autosync.search.protocol import Proposal
from autosync.search.searcher import LedgerSearch
from autosync.spec import RuntimeRecord, Strategy
from autosync.tune.recorded.cells import RecordedCell

Floats = npt.NDArray[np.float64]

POINTS_A_DEVIATION = 4
MOST_POINTS = 2000
ROUNDS = 300


@final
class IdealSearch(LedgerSearch):
    """Proposes the strategies that it is given as baselines, in their order, however few trials there are."""

    name = "random"

    def baselines_left(self) -> int:
        return 0

    def _next(self) -> Proposal | None:
        return None


def foreseen(cell: RecordedCell, seed: int) -> list[Strategy]:
    """The pool's strategies, the one that would be fastest without noise first; those that failed come last."""
    drawn = drawn_times(cell, seed)
    return sorted(drawn, key=drawn.__getitem__) + [each for each in cell.trials if each not in drawn]


def drawn_times(cell: RecordedCell, seed: int) -> dict[Strategy, float]:
    """Log seconds without noise of the strategies that were timed, as `seed` draws them from what is likely."""
    timed = [strategy for strategy, seconds in cell.seconds.items() if math.isfinite(seconds)]
    points, chances = _posterior(cell)
    drawn = _drawn(points, chances, np.random.default_rng(seed))
    return dict(zip(timed, drawn.tolist(), strict=True))


def noise_free(measured: Floats, deviations: Floats) -> tuple[Floats, Floats]:
    """Points (p,), and the chance (n, p) that a value measured, float64 (n,), with noise of such a standard deviation
    (n,), is each of these without noise; rows add up to one."""
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
def _posterior(cell: RecordedCell) -> tuple[Floats, Floats]:
    """What `noise_free` says of the log seconds of the strategies timed; kept for the cell that was asked for last."""
    trials = [each for strategy, each in cell.trials.items() if math.isfinite(cell.seconds[strategy])]
    measured = np.log([seconds for seconds in cell.seconds.values() if math.isfinite(seconds)])
    timings = np.array([sum(record.timed for record in each) for each in trials])
    return noise_free(measured, cell.deviation / np.sqrt(timings))


def _drawn(points: Floats, chances: Floats, rng: np.random.Generator) -> Floats:
    """A point by each row's chances (n,), and by chance less than a step more, which also decides between equals."""
    places = (np.cumsum(chances, axis=1) < rng.random((len(chances), 1))).sum(axis=1)
    step = points[1] - points[0]
    return np.asarray(points[np.minimum(places, len(points) - 1)] + 0.5 * step * rng.random(len(chances)))


TRIALS = 16
"""Trials of each strategy, at as many quantiles of the noise, so that their median is what it takes without noise; a
search meets them in an order that its seed draws."""


def drawn_cell(cell: RecordedCell, seed: int) -> RecordedCell:
    """`cell` as another day might have shown it. What could not be timed stays as it is."""
    noise = cell.deviation * norm.ppf((np.arange(TRIALS) + 0.5) / TRIALS)
    trials = dict(cell.trials)
    for strategy, without in drawn_times(cell, seed).items():
        timed = next(each for each in cell.trials[strategy] if each.timed)
        trials[strategy] = tuple(_taking(timed, math.exp(without + each)) for each in noise.tolist())
    return replace(cell, trials=trials)


def _taking(record: RuntimeRecord, seconds: float) -> RuntimeRecord:
    """The record with its steps scaled to a median of `seconds`."""
    assert record.median_seconds is not None
    scale = seconds / record.median_seconds
    return replace(record, step_seconds=tuple(scale * each for each in record.step_seconds))
