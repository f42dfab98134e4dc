"""Fitting a replay's coefficients to measured step times: few, physical, and never one of them for a strategy.

What is sought maximizes a posterior. Residuals are of the logarithms of step seconds, so that errors are relative; each
has the replay's own error and that of its record's median, and records of one model, cluster and occasion share an
error, too: a machine that was busy all the while must not bend the coefficients that rank strategies. Records far off
count by Cauchy's loss, so that outliers weigh little. Coefficients are held near the prior by a ridge over their
logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.cost.replay.coefficients import ReplayCoefficients
from autosync.cost.replay.search import PROBE, Search
from autosync.cost.replay.step import Step
from autosync.stats.occasions import weighted_median

__all__ = ["Family", "calibrated"]

FloatArray = npt.NDArray[np.float64]

ERROR = 0.08
"""Relative error expected of a replay; `OUTLIER` times that is far off."""
FAMILY_ERROR = 0.1
"""Relative error expected of all replays of one model on one cluster on one occasion together."""
OUTLIER = 3.0
ROUNDS = 24
CARRIED = 3
"""The most rounds that go by the same measured slopes."""
MOST_DAMPING = 1e4
LEVELINGS = 2
LEAST_SHARE = 0.2
"""The least share of a step that the machine's speed must decide on to be leveled."""
ENOUGH = 1e-3
"""The least gain in likelihood for each record that is worth going on for."""


@dataclass(frozen=True, eq=False)
class Family:
    """Steps of one model on one cluster, timed on one occasion, the logarithms of their measured seconds, the errors of
    these, and how much each counts, (n,)."""

    steps: Sequence[Step]
    log_seconds: FloatArray
    errors: FloatArray
    weights: FloatArray


def calibrated(families: Sequence[Family], prior: ReplayCoefficients) -> ReplayCoefficients:
    """The coefficients under which replays agree best with what was measured; `prior` when nothing was."""
    families = [each for each in families if len(each.steps)]
    if not families:
        return prior
    search = Search.around(prior, [step for each in families for step in each.steps])

    def misfits(point: FloatArray) -> FloatArray:
        candidate = search.coefficients(point)
        return np.concatenate([_misfits(each, candidate) for each in families])

    return search.coefficients(_leveled(search, families, _descended(search, misfits)))


def _leveled(search: Search, families: Sequence[Family], point: FloatArray) -> FloatArray:
    """`point` with the machine's speed, the first coordinate, such that half of the records take longer than predicted.

    The speed is left as it is where it decides little: where the network is the limit.
    """
    weights = np.concatenate([each.weights for each in families])

    def level(at: FloatArray) -> float:
        found = [_log_seconds(each, search.coefficients(at)) - each.log_seconds for each in families]
        return weighted_median(np.concatenate(found), weights)

    speed = np.eye(len(point))[0]
    count = float(weights.sum())
    for _ in range(LEVELINGS):
        off = level(point)
        decides = (level(point + PROBE * speed) - off) / PROBE
        if decides < LEAST_SHARE:
            break
        point = search.inside(point - speed * np.clip(off * count / (count + 1) / decides, -0.5, 0.5))
    return point


def _log_seconds(family: Family, coefficients: ReplayCoefficients) -> FloatArray:
    return np.log([max(step.seconds(coefficients), 1e-9) for step in family.steps])


def _misfits(family: Family, coefficients: ReplayCoefficients) -> FloatArray:
    """Errors of the family's predictions in standard deviations, (n,).

    Their level, which may be an error all share, is made as small as leaves the sum of squares its likelihood.
    """
    spread = np.hypot(ERROR, family.errors) / np.sqrt(family.weights)
    misfits = (_log_seconds(family, coefficients) - family.log_seconds) / spread
    level = weighted_median(misfits, family.weights)
    shared = len(misfits) * (FAMILY_ERROR / float(np.median(spread))) ** 2
    return np.asarray(misfits - level + level / np.sqrt(1 + shared))


def _descended(search: Search, misfits: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """The point that Levenberg-Marquardt steps lead to, each record weighing less the farther off it is.

    Slopes are measured every few rounds and carried on in between by Broyden's update: replays take their time. Where
    carried ones gain nothing more they are measured anew, and only where those gain nothing it is over.
    """
    point = search.start
    found = misfits(point)
    damping, stale = 1e-2, 0
    slopes = _slopes(search, misfits, point, found)
    for _ in range(ROUNDS):
        if stale >= CARRIED:
            slopes, damping, stale = _slopes(search, misfits, point, found), min(damping, 1e-2), 0
        step, errors, damping = _better(search, misfits, (point, found, slopes), damping)
        before = _loss(found) + search.distance(point)
        if step.any():
            slopes = slopes + np.outer(errors - found - slopes @ step, step) / (step @ step)
            point, found = point + step, errors
        if before - _loss(found) - search.distance(point) >= ENOUGH * len(found):
            stale += 1
        elif stale:
            stale = CARRIED
        else:
            break
    return point


def _slopes(
    search: Search, misfits: Callable[[FloatArray], FloatArray], point: FloatArray, found: FloatArray
) -> FloatArray:
    """How each misfit changes along each coordinate, (n, coordinates)."""
    probes = search.probes(point)
    return np.stack([misfits(point + probe) - found for probe in np.diag(probes)], axis=1) / probes


def _better(
    search: Search,
    misfits: Callable[[FloatArray], FloatArray],
    at: tuple[FloatArray, FloatArray, FloatArray],
    damping: float,
) -> tuple[FloatArray, FloatArray, float]:
    """A step downhill from a point with its misfits and slopes, the misfits there, and how damped it was; or none."""
    point, found, slopes = at
    weights = 1 / (1 + (found / OUTLIER) ** 2)
    curvature = slopes.T @ (weights[:, None] * slopes) + np.diag(search.stiffness)
    downhill = -(slopes.T @ (weights * found) + search.stiffness * (point - search.start))
    while damping < MOST_DAMPING:
        tried = search.inside(point + np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), downhill))
        errors = misfits(tried)
        if _loss(errors) + search.distance(tried) < _loss(found) + search.distance(point):
            return tried - point, errors, damping / 6
        damping *= 6
    return np.zeros_like(point), found, 1e-2


def _loss(misfits: FloatArray) -> float:
    """Cauchy's loss of the misfits."""
    return float(0.5 * OUTLIER**2 * np.log1p((misfits / OUTLIER) ** 2).sum())
