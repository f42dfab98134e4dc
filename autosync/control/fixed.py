"""Makes the same decision before every step: a count of replicas to wait for, or shares of the examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields


@final
class Fixed:
    """Returns `decision` for every step and ignores reports."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    def decide(self) -> Decision:
        return self._decision

    def observe(self, _report: StepReport) -> bool:
        return False

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        check_fields(state, (), "The state of a fixed decision")
