"""Waiting for the first so many replicas: backup workers (Chen, Monga, Bengio and Jozefowicz 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from autosync.spec import Decision, StepReport
from autosync.spec.codec import known_fields


@final
class First:
    """Every step waits for the first `count` replicas, whoever they are."""

    def __init__(self, count: int) -> None:
        self._decision = Decision(first=count)

    def decide(self) -> Decision:
        return self._decision

    def observe(self, _report: StepReport) -> bool:
        return False

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        known_fields(state, (), "The state of a count of replicas")
