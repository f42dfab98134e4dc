"""Fits a replay's coefficients to measured step times: a few physical coefficients, none specific to a strategy.

The fit maximizes a posterior. Residuals are differences of log step seconds, so that errors are relative. Each residual
has the replay's own error and the error of its record's median. Records of one model, cluster and occasion also share
an error, so that a machine that was busy all the time does not distort the coefficients that rank strategies. Outliers
weigh little, because of Cauchy's loss. A ridge over the logarithms of coefficients holds them near the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autosync.cost.coefficients import NOT_OF_CORES, SHARES, ReplayCoefficients
from autosync.cost.replay.step import ReplayedStep
from autosync.numeric import FloatArray
from autosync.stats.drift import weighted_median

PRIOR_LOG = 1.5
"""The standard deviation of a machine's log speed around the prior: a factor e^1.5 = 4.5."""
PRIOR_LOG_RATIO = 0.7
"""The standard deviation of one coefficient's logarithm, apart from the machine's speed: a factor 2."""
PRIOR_SHARE = 0.35
"""The standard deviation of a coefficient that is a share."""
PRIOR_LOG_OVERHEAD = 0.3
"""The standard deviation of a link's log overhead, which depends on protocols and little on machines."""
LARGEST_LOG = 9.0
SMALLEST_PRIOR = 1e-15
PROBE = 0.1
"""The difference in a coordinate for measured slopes. Step seconds jump slightly where tasks overtake each other; over
a tenth, the slope shows the trend."""


@dataclass(frozen=True, eq=False)
class CoefficientSearch:
    """Points around a prior: the machine's log factor, then each coefficient's log factor; shares are not logarithms.

    So the first record of a slow machine moves all costs of its cores together and keeps their ratios. Coefficients
    that no step uses keep the prior.
    """

    prior: ReplayCoefficients
    names: tuple[str, ...]
    stiffness: FloatArray

    @classmethod
    def around(cls, prior: ReplayCoefficients, steps: Sequence[ReplayedStep]) -> CoefficientSearch:
        left_out = set()
        if not any(step.catalogue.has_gpus for step in steps):
            left_out.add("gpu_seconds_per_flop")
        if not any(step.passes.model.profile and step.passes.computes for step in steps):
            left_out.add("profile_scale")
        if all(step.passes.model.profile for step in steps):
            left_out.add("core_seconds_per_flop")
        names = tuple(name for name in asdict(prior) if name not in left_out)
        special = dict.fromkeys(SHARES, PRIOR_SHARE) | {"link_overhead": PRIOR_LOG_OVERHEAD}
        spread = [PRIOR_LOG, *(special.get(name, PRIOR_LOG_RATIO) for name in names)]
        return cls(prior, names, 1 / np.array(spread) ** 2)

    @cached_property
    def values(self) -> FloatArray:
        return np.array([getattr(self.prior, name) for name in self.names])

    @cached_property
    def is_share(self) -> npt.NDArray[np.bool_]:
        return np.array([name in SHARES for name in self.names])

    @cached_property
    def _share(self) -> npt.NDArray[np.bool_]:
        """Whether each coordinate is a share; the machine's factor is not."""
        return np.concatenate([[False], self.is_share])

    @cached_property
    def start(self) -> FloatArray:
        return self.inside(np.concatenate([[0.0], np.where(self.is_share, self.values, 0.0)]))

    def coefficients(self, point: FloatArray) -> ReplayCoefficients:
        on_machine = np.array([name not in NOT_OF_CORES for name in self.names])
        factors = np.exp(np.clip(point[1:] + on_machine * point[0], -LARGEST_LOG, LARGEST_LOG))
        values = np.where(self.is_share, np.clip(point[1:], 0, 1), np.maximum(self.values, SMALLEST_PRIOR) * factors)
        return replace(self.prior, **dict(zip(self.names, values.tolist(), strict=True)))

    def inside(self, point: FloatArray) -> FloatArray:
        """The nearest allowed point: shares are between 0 and 1."""
        least, most = np.where(self._share, 0.0, -LARGEST_LOG), np.where(self._share, 1.0, LARGEST_LOG)
        return np.asarray(np.clip(point, least, most))

    def probes(self, point: FloatArray) -> FloatArray:
        """The difference of each coordinate of `point` for measured slopes: negative if a share would exceed 1."""
        return np.where(self._share & (point + PROBE > 1), -PROBE, PROBE)

    def distance(self, point: FloatArray) -> float:
        return float(0.5 * (self.stiffness * (point - self.start) ** 2).sum())


ERROR = 0.08
"""Expected relative error of a replay; from `OUTLIER` times that on, a record counts as an outlier."""
FAMILY_ERROR = 0.1
"""Expected relative error that all replays of one model on one cluster on one occasion share."""
OUTLIER = 3.0
ROUNDS = 24
CARRIED = 3
"""The maximum number of rounds with the same measured slopes."""
MOST_DAMPING = 1e4
LEVELINGS = 2
LEAST_SHARE = 0.2
"""The minimum share of a step that must depend on the machine's speed for the speed to be leveled."""
ENOUGH = 1e-3
"""The minimum gain in log likelihood per record for which the fit continues."""


@dataclass(frozen=True, eq=False)
class Family:
    """n steps of one model on one cluster, timed on one occasion."""

    steps: Sequence[ReplayedStep]

    log_seconds: FloatArray
    """The logarithms of the measured step seconds, (n,)."""

    errors: FloatArray
    """The standard errors of `log_seconds`, (n,)."""

    weights: FloatArray
    """The weights of the records, (n,)."""


def calibrate(families: Sequence[Family], prior: ReplayCoefficients) -> ReplayCoefficients:
    """Fit the coefficients under which replays agree best with the measurements; return `prior` if there are none."""
    families = [family for family in families if len(family.steps)]
    if not families:
        return prior
    search = CoefficientSearch.around(prior, [step for family in families for step in family.steps])

    def misfits(point: FloatArray) -> FloatArray:
        candidate = search.coefficients(point)
        return np.concatenate([_misfits(family, candidate) for family in families])

    return search.coefficients(_level_speed(search, families, _descend(search, misfits)))


def _level_speed(search: CoefficientSearch, families: Sequence[Family], point: FloatArray) -> FloatArray:
    """Move the machine's speed, the first coordinate, until half of the records take longer than predicted.

    The speed is left unchanged if it matters little, because the network is the limit.
    """
    weights = np.concatenate([family.weights for family in families])

    def level(at: FloatArray) -> float:
        errors = [_log_seconds(family, search.coefficients(at)) - family.log_seconds for family in families]
        return weighted_median(np.concatenate(errors), weights)

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

    The level of the errors may be an error that all records share. It is shrunk such that the sum of squares still
    gives the likelihood.
    """
    spread = np.hypot(ERROR, family.errors) / np.sqrt(family.weights)
    misfits = (_log_seconds(family, coefficients) - family.log_seconds) / spread
    level = weighted_median(misfits, family.weights)
    shared = len(misfits) * (FAMILY_ERROR / float(np.median(spread))) ** 2
    return np.asarray(misfits - level + level / np.sqrt(1 + shared))


def _descend(search: CoefficientSearch, misfits: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Minimize by Levenberg-Marquardt steps, with smaller weights for larger errors; return the final point.

    Slopes are measured every few rounds and updated in between by Broyden's formula, because replays are slow. If
    updated slopes yield no further gain, they are measured again. The search ends when measured slopes yield no gain.
    """
    point = search.start
    current = misfits(point)
    damping, stale = 1e-2, 0
    slopes = _slopes(search, misfits, point, current)
    for _ in range(ROUNDS):
        if stale >= CARRIED:
            slopes, damping, stale = _slopes(search, misfits, point, current), min(damping, 1e-2), 0
        step, errors, damping = _better(search, misfits, (point, current, slopes), damping)
        before = _loss(current) + search.distance(point)
        if step.any():
            slopes = slopes + np.outer(errors - current - slopes @ step, step) / (step @ step)
            point, current = point + step, errors
        if before - _loss(current) - search.distance(point) >= ENOUGH * len(current):
            stale += 1
        elif stale:
            stale = CARRIED
        else:
            break
    return point


def _slopes(
    search: CoefficientSearch, misfits: Callable[[FloatArray], FloatArray], point: FloatArray, current: FloatArray
) -> FloatArray:
    """The slope of each misfit along each coordinate, (n, coordinates)."""
    probes = search.probes(point)
    return np.stack([misfits(point + probe) - current for probe in np.diag(probes)], axis=1) / probes


def _better(
    search: CoefficientSearch,
    misfits: Callable[[FloatArray], FloatArray],
    at: tuple[FloatArray, FloatArray, FloatArray],
    damping: float,
) -> tuple[FloatArray, FloatArray, float]:
    """A step downhill from `at` (point, misfits, slopes): the step, the misfits after it, and the next damping. The
    step is zero if no damping improves the loss."""
    point, current, slopes = at
    weights = 1 / (1 + (current / OUTLIER) ** 2)
    curvature = slopes.T @ (weights[:, None] * slopes) + np.diag(search.stiffness)
    downhill = -(slopes.T @ (weights * current) + search.stiffness * (point - search.start))
    while damping < MOST_DAMPING:
        tried = search.inside(point + np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), downhill))
        errors = misfits(tried)
        if _loss(errors) + search.distance(tried) < _loss(current) + search.distance(point):
            return tried - point, errors, damping / 6
        damping *= 6
    return np.zeros_like(point), current, 1e-2


def _loss(misfits: FloatArray) -> float:
    """Cauchy's loss of the misfits."""
    return float(0.5 * OUTLIER**2 * np.log1p((misfits / OUTLIER) ** 2).sum())
