"""How sure a simulator is: the spread of its members, calibrated on records that they did not learn from.

Errors are scored by the spread expected of them, and the 90 % quantile of the scores is made that of a normal
distribution: split-conformal prediction (Lei et al. 2018), with the quantile's correction for few records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.simulator.ensemble import HeldOut

__all__ = ["Spread", "calibrated_spread", "family_error"]

FloatArray = npt.NDArray[np.float64]

PRIOR_SPREAD = 0.3
"""Standard deviation of log seconds expected of a base simulator before anything was measured."""
COVERED, NORMAL_QUANTILE = 0.9, 1.645
"""A share of a normal distribution, 90 %, and the standard deviations within which it lies."""
ENOUGH = 20
"""The least weight of held-out records that says what the quantile is."""
EARLIER_RECORDS = 10
"""The number of records that an earlier fit's finding about errors counts as."""


@dataclass(frozen=True)
class Spread:
    """Standard deviations in log seconds: `error` of a prediction that the members agree on, `family_error` of the
    level of a model and cluster that nothing is known of. `scale` multiplies the former; `families` counts records."""

    error: float = PRIOR_SPREAD / 2**0.5
    scale: float = 1.0
    family_error: float = PRIOR_SPREAD / 2**0.5
    families: Mapping[str, int] = field(default_factory=dict)

    def of(self, members: FloatArray, family: str) -> FloatArray:
        """The standard deviation of predictions for one family whose members deviate so much, float64 (n,)."""
        level = self.family_error / (1 + self.families.get(family, 0)) ** 0.5
        return np.hypot(self.scale * np.hypot(members, self.error), level)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def calibrated_spread(
    held: HeldOut, families: Mapping[str, int], level: float | None, earlier: Spread | None
) -> Spread:
    """A spread that held-out records agree with; `level` is the `family_error` found, if it was sought.

    Few records move what was known `earlier`, or the prior, only a little.
    """
    known = earlier or Spread()
    weight = EARLIER_RECORDS if earlier else 1
    count = float(held.weights.sum())
    squares = weight * (known.scale * known.error) ** 2 + (held.weights * held.errors**2).sum()
    error = float((squares / (weight + count)) ** 0.5)
    scale = 1.0
    if count >= ENOUGH:
        scores, share = np.abs(held.errors) / np.hypot(held.spread, error), min(1.0, COVERED * (count + 1) / count)
        reached = np.quantile(scores, share, method="inverted_cdf", weights=held.weights)
        scale = float(reached) / NORMAL_QUANTILE
    counts = {name: families.get(name, 0) + known.families.get(name, 0) for name in {**known.families, **families}}
    return Spread(error, scale, known.family_error if level is None else level, counts)


def family_error(residuals: FloatArray, occasions: npt.NDArray[np.int64]) -> float:
    """How far a family's level may be off: from the means of the base's errors (n,) on each occasion, and the prior as
    one more."""
    means = [float(residuals[occasions == each].mean()) for each in np.unique(occasions)]
    return float(((Spread.family_error**2 + np.square(means).sum()) / (1 + len(means))) ** 0.5)
