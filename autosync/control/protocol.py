"""The interface of controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from autosync.spec import Decision, StepReport


class Controller(Protocol):
    """Decides one step after another. The same reports lead to the same decisions in any process."""

    def decide(self) -> Decision:
        """Return the decision for the next step. A second call before `observe` returns the same decision."""
        ...

    def observe(self, report: StepReport) -> bool:
        """Take the report of the step that was decided last; return whether replicas synchronize now.

        The result counts only if the decision left that open (`Decision.meets` is None).
        """
        ...

    def state(self) -> dict[str, Any]:
        """Return everything that later decisions depend on, as JSON."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state` of a controller of the same discipline. Raises `SpecError` for another document."""
        ...
