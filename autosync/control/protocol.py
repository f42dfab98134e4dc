"""What every controller is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from autosync.spec import Decision, StepReport


class Controller(Protocol):
    """Decides step after step. The same reports lead to the same decisions, in any process."""

    def decide(self) -> Decision:
        """The decision for the next step. Asked twice, it is the same."""
        ...

    def observe(self, report: StepReport) -> bool:
        """Learn how the step went that was decided last; whether replicas meet now, which is heeded where that was
        left open.
        """
        ...

    def state(self) -> dict[str, Any]:
        """All that later decisions depend on, as JSON."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state` of a controller of the same discipline. Raises `SpecError` for any other document."""
        ...
