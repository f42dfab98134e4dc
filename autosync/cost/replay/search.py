"""Points around a prior where calibration looks for coefficients, and how unlikely it thinks each of them.

A ridge over logarithms holds coefficients near the prior: with few records it decides, with many it hardly counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autosync.cost.replay.coefficients import NOT_OF_CORES, SHARES, ReplayCoefficients
from autosync.cost.replay.step import Step

__all__ = ["PROBE", "Search"]

FloatArray = npt.NDArray[np.float64]

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
        if not any(step.passes.model.profile for step in steps):
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
