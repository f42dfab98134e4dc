"""Synchronizes replicas in every `period`-th step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_optional, read_required


@final
class Periodic:
    """Lets replicas synchronize in every `period`-th step, and in each of the first `after` steps."""

    def __init__(self, period: int, after: int = 0) -> None:
        self._period = period
        self._left = after
        self._apart = 0

    def decide(self) -> Decision:
        return Decision(meets=self._left > 0 or self._apart + 1 == self._period)

    def observe(self, report: StepReport) -> bool:
        self._apart = 0 if report.decision.meets else self._apart + 1
        self._left = max(self._left - 1, 0)
        return False

    def state(self) -> dict[str, Any]:
        return {"apart": self._apart} | ({"left": self._left} if self._left else {})

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a period"
        check_fields(state, ("apart", "left"), what)
        apart, left = read_required(state, "apart", int, what), read_optional(state, "left", int, what) or 0
        if not 0 <= apart < self._period:
            raise SpecError(f"{what} of {self._period} steps counts 0 to {self._period - 1} steps apart, not {apart}.")
        if left < 0:
            raise SpecError(f"{what} has at least 0 steps left, not {left}.")
        self._apart, self._left = apart, left
