"""Fitting a replay's coefficients to measured step times: few, physical, and never one of them for a strategy.

What is sought maximizes a posterior. Residuals are of the logarithms of step seconds, so that errors are relative; each
has the replay's own error and that of its record's median, and records of one model, cluster and occasion share an
error, too: a machine that was busy all the while must not bend the coefficients that rank strategies. Records far off
count by Cauchy's loss, so that outliers weigh little. Coefficients are held near the prior by a ridge over their
logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autosync.cost.coefficients import NOT_OF_CORES, SHARES, ReplayCoefficients
from autosync.cost.replay.step import Step
from autosync.stats.occasions import weighted_median

PRIOR_LOG = 1.5
"""How far a machine's speed may well be from the prior: a factor e^1.5 = 4.5."""
PRIOR_LOG_RATIO = 0.7
"""How far one coefficient may well be from the prior once the machine's speed is accounted for: a factor 2."""
PRIOR_SHARE = 0.35
"""How far a coefficient that is a share may well be from the prior."""
PRIOR_LOG_OVERHEAD = 0.3
"""How far the overhead of a link, which protocols make and machines little, may well be from the prior."""
LARGEST_LOG = 9.0
SMALLEST_PRIOR = 1e-15
PROBE = 0.1
"""How far a coordinate is moved to see what follows. Where tasks overtake each other, a step jumps by little; over a
tenth, its slope says where it goes."""


@dataclass(frozen=True, eq=False)
class Search:
    """Points around a prior: the machine's logarithmic factor, each coefficient's beside it, and shares as they are.

    A slow machine's first record so moves all costs of its cores together and keeps their ratios. Coefficients of what
    no step has stay as they are.
    """

    prior: ReplayCoefficients
    names: tuple[str, ...]
    stiffness: FloatArray

    @classmethod
    def around(cls, prior: ReplayCoefficients, steps: Sequence[Step]) -> Search:
        left_out = set()
        if not any(step.catalogue.has_gpus for step in steps):
            left_out.add("gpu_seconds_per_flop")
        if not any(step.passes.model.profile and step.passes.computed for step in steps):
            left_out.add("profile_scale")
        if all(step.passes.model.profile for step in steps):
            left_out.add("core_seconds_per_flop")
        names = tuple(name for name in asdict(prior) if name not in left_out)
        other = dict.fromkeys(SHARES, PRIOR_SHARE) | {"link_overhead": PRIOR_LOG_OVERHEAD}
        spread = [PRIOR_LOG, *(other.get(name, PRIOR_LOG_RATIO) for name in names)]
        return cls(prior, names, 1 / np.array(spread) ** 2)

    @cached_property
    def values(self) -> FloatArray:
        return np.array([getattr(self.prior, name) for name in self.names])

    @cached_property
    def is_share(self) -> npt.NDArray[np.bool_]:
        return np.array([name in SHARES for name in self.names])

    @cached_property
    def _share(self) -> npt.NDArray[np.bool_]:
        """Whether each coordinate is a share; the machine's is none."""
        return np.concatenate([[False], self.is_share])

    @cached_property
    def start(self) -> FloatArray:
        return self.inside(np.concatenate([[0.0], np.where(self.is_share, self.values, 0.0)]))

    def coefficients(self, point: FloatArray) -> ReplayCoefficients:
        on_machine = np.array([name not in NOT_OF_CORES for name in self.names])
        factors = np.exp(np.clip(point[1:] + on_machine * point[0], -LARGEST_LOG, LARGEST_LOG))
        found = np.where(self.is_share, np.clip(point[1:], 0, 1), np.maximum(self.values, SMALLEST_PRIOR) * factors)
        return replace(self.prior, **dict(zip(self.names, found.tolist(), strict=True)))

    def inside(self, point: FloatArray) -> FloatArray:
        """The nearest point that is allowed: shares are between 0 and 1."""
        least, most = np.where(self._share, 0.0, -LARGEST_LOG), np.where(self._share, 1.0, LARGEST_LOG)
        return np.asarray(np.clip(point, least, most))

    def probes(self, point: FloatArray) -> FloatArray:
        """How far each coordinate of `point` is moved to see what follows: back where a share would be over 1."""
        return np.where(self._share & (point + PROBE > 1), -PROBE, PROBE)

    def distance(self, point: FloatArray) -> float:
        return float(0.5 * (self.stiffness * (point - self.start) ** 2).sum())


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
