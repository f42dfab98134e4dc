"""Meeting when gradients change: SelSync (Tyagi and Swany 2023, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import every, known_fields

SMOOTHING = 0.01
"""What a step's squared norm weighs in the smoothed one, for each replica that there is: 0.16 for the authors' 16.

They cut the average off after 25 steps; this one goes on, so that what is left out weighs under (1 - 0.01 n)^25.
"""


@final
class WhenGradientsChange:
    """Replicas meet after a step in which any one's smoothed squared norm changed by at least `threshold` of itself.

    They meet after the first step too, which has nothing to be compared with.
    """

    def __init__(self, threshold: float, replicas: int) -> None:
        self._threshold = threshold
        self._weight = min(1.0, SMOOTHING * replicas)
        self._replicas = replicas
        self._smoothed: tuple[float, ...] = ()

    def decide(self) -> Decision:
        return Decision(meets=None)

    def observe(self, report: StepReport) -> bool:
        before, now = self._smoothed, report.square_norms
        if before:
            now = tuple(old + self._weight * (new - old) for old, new in zip(before, now, strict=True))
        self._smoothed = now
        # What is no number, or follows a gradient of zero, is a change too.
        return not before or not all(
            old > 0 and abs(new - old) / old < self._threshold for old, new in zip(before, now, strict=True)
        )

    def state(self) -> dict[str, Any]:
        return {"smoothed": [each if math.isfinite(each) else None for each in self._smoothed]}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a threshold"
        known_fields(state, ("smoothed",), what)
        found = every(state, "smoothed", object, what)
        if len(found) not in (0, self._replicas) or not all(_is_norm(each) for each in found):
            raise SpecError(f"{what} has a smoothed squared norm for each of {self._replicas} replicas, or none yet.")
        self._smoothed = tuple(math.nan if each is None else float(each) for each in found)  # type: ignore[arg-type]


def _is_norm(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)
