"""Meeting in every so many steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import known_fields, required


@final
class Periodic:
    """Replicas meet in every `period`-th step."""

    def __init__(self, period: int) -> None:
        self._period = period
        self._apart = 0

    def decide(self) -> Decision:
        return Decision(meets=self._apart + 1 == self._period)

    def observe(self, report: StepReport) -> bool:
        self._apart = 0 if report.decision.meets else self._apart + 1
        return False

    def state(self) -> dict[str, Any]:
        return {"apart": self._apart}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a period"
        known_fields(state, ("apart",), what)
        apart = required(state, "apart", int, what)
        if not 0 <= apart < self._period:
            raise SpecError(f"With a period of {self._period} replicas were apart for fewer steps, not {apart}.")
        self._apart = apart
