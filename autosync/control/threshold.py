"""Meeting when gradients change: SelSync (Tyagi and Swany 2023, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import every, known_fields, optional

SMOOTHING = 0.01
"""What a step's squared norm weighs in the smoothed one, for each replica that there is: 0.16 for the authors' 16.

They cut the average off after 25 steps; this one goes on, so that what is left out weighs under (1 - 0.01 n)^25.
"""


LAST_CHANGES = 100
"""How many changes a quantile is of."""

FIRST_CHANGES = 10
"""Until there are so many, replicas meet after every step."""


@final
class WhenGradientsChange:
    """Replicas meet after a step in which any one's smoothed squared norm changed by at least so much of itself.

    That is the `threshold`; or as much as in the share `quantile` of the last steps. They meet after each of the first
    `after` steps too, and after the very first, which has nothing to be compared with.
    """

    def __init__(
        self, replicas: int, threshold: float | None = None, quantile: float | None = None, after: int = 0
    ) -> None:
        self._threshold = threshold
        self._quantile = quantile
        self._weight = min(1.0, SMOOTHING * replicas)
        self._replicas = replicas
        self._left = after
        self._smoothed: tuple[float, ...] = ()
        self._changes: tuple[float, ...] = ()

    def decide(self) -> Decision:
        return Decision(meets=None)

    def observe(self, report: StepReport) -> bool:
        before, now = self._smoothed, tuple(0.0 if each is None else each for each in report.square_norms)
        if before:
            now = tuple(old + self._weight * (new - old) for old, new in zip(before, now, strict=True))
        self._smoothed = now
        forced, self._left = self._left > 0, max(self._left - 1, 0)
        # What is no number, or follows a gradient of zero, is a change too.
        pairs = zip(before, now, strict=False)
        each = [abs(new - old) / old if old > 0 and math.isfinite(new) else math.inf for old, new in pairs]
        change = max(each, default=math.inf)
        least = self._least()
        if self._quantile is not None and math.isfinite(change):
            self._changes = (*self._changes, change)[-LAST_CHANGES:]
        return forced or change >= least

    def _least(self) -> float:
        """How much of a change lets replicas meet."""
        if self._quantile is None:
            assert self._threshold is not None, "one of the two is given"
            return self._threshold
        if len(self._changes) < FIRST_CHANGES:
            return 0.0
        return float(np.quantile(self._changes, self._quantile))

    def state(self) -> dict[str, Any]:
        smoothed = [each if math.isfinite(each) else None for each in self._smoothed]
        more = {"changes": list(self._changes), "left": self._left}
        return {"smoothed": smoothed} | {name: value for name, value in more.items() if value}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a threshold"
        known_fields(state, ("smoothed", "changes", "left"), what)
        found = every(state, "smoothed", object, what)
        if len(found) not in (0, self._replicas) or not all(_is_norm(each) for each in found):
            raise SpecError(f"{what} has a smoothed squared norm for each of {self._replicas} replicas, or none yet.")
        changes = every(state, "changes", float, what) if "changes" in state else ()
        left = optional(state, "left", int, what) or 0
        if len(changes) > LAST_CHANGES or not all(0 <= each < math.inf for each in changes) or left < 0:
            raise SpecError(f"{what} has up to {LAST_CHANGES} changes, and 0 steps left or more.")
        self._smoothed = tuple(math.nan if each is None else float(each) for each in found)  # type: ignore[arg-type]
        self._changes, self._left = changes, left


def _is_norm(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)
