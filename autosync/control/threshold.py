"""Synchronizes replicas when gradients change: SelSync (Tyagi and Swany 2023, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_list, read_optional

SMOOTHING = 0.01
"""The weight of a step's squared norm in the smoothed one, per replica: 0.16 for the authors' 16 replicas.

The authors cut the average off after 25 steps. Here the average has no cut-off: with n replicas, steps older than that
weigh less than (1 - 0.01 n)^25 together.
"""


LAST_CHANGES = 100
"""The number of recent changes whose quantile is the threshold."""

FIRST_CHANGES = 10
"""Until there are `FIRST_CHANGES` changes, replicas synchronize after every step."""


@final
class WhenGradientsChange:
    """Lets replicas synchronize after a step that changed the smoothed squared norm of any replica's gradient enough.

    Enough is the relative change `threshold`, or the `quantile` of the relative changes of the last steps. Replicas
    also synchronize after each of the first `after` steps, and after the very first step, which has no predecessor.
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
        before, now = self._smoothed, tuple(0.0 if norm is None else norm for norm in report.square_norms)
        if before:
            now = tuple(old + self._weight * (new - old) for old, new in zip(before, now, strict=True))
        self._smoothed = now
        forced, self._left = self._left > 0, max(self._left - 1, 0)
        # A norm that is not a number, or that follows a gradient of zero, is a change too.
        pairs = zip(before, now, strict=False)
        changes = [abs(new - old) / old if old > 0 and math.isfinite(new) else math.inf for old, new in pairs]
        change = max(changes, default=math.inf)
        least = self._least()
        if self._quantile is not None and math.isfinite(change):
            self._changes = (*self._changes, change)[-LAST_CHANGES:]
        return forced or change >= least

    def _least(self) -> float:
        """The smallest relative change after which replicas synchronize."""
        if self._quantile is None:
            assert self._threshold is not None, "a rhythm has a threshold or a quantile"
            return self._threshold
        if len(self._changes) < FIRST_CHANGES:
            return 0.0
        return float(np.quantile(self._changes, self._quantile))

    def state(self) -> dict[str, Any]:
        smoothed = [norm if math.isfinite(norm) else None for norm in self._smoothed]
        more = {"changes": list(self._changes), "left": self._left}
        return {"smoothed": smoothed} | {name: value for name, value in more.items() if value}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a threshold"
        check_fields(state, ("smoothed", "changes", "left"), what)
        norms = read_list(state, "smoothed", object, what)
        if len(norms) not in (0, self._replicas) or not all(_is_norm(norm) for norm in norms):
            raise SpecError(
                f"{what} has a smoothed squared norm for each of {self._replicas} replicas, or no norms yet."
            )
        changes = read_list(state, "changes", float, what) if "changes" in state else ()
        left = read_optional(state, "left", int, what) or 0
        if len(changes) > LAST_CHANGES or not all(0 <= change < math.inf for change in changes) or left < 0:
            raise SpecError(f"{what} has at most {LAST_CHANGES} changes, and at least 0 steps left.")
        self._smoothed = tuple(math.nan if norm is None else float(norm) for norm in norms)  # type: ignore[arg-type]
        self._changes, self._left = changes, left


def _is_norm(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)
