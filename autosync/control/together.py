"""Several controllers, each of which decides something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, final

from autosync.control.protocol import Controller
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import every, known_fields

NOTHING = Decision()


@final
class Together:
    """Decides what its parts decide; whether replicas meet after a step is any one's to say."""

    def __init__(self, parts: Sequence[Controller]) -> None:
        self._parts = tuple(parts)

    def decide(self) -> Decision:
        decided: dict[str, Any] = {}
        for part in self._parts:
            decision = part.decide()
            values = {each.name: getattr(decision, each.name) for each in fields(Decision)}
            decided |= {name: value for name, value in values.items() if value != getattr(NOTHING, name)}
        return Decision(**decided)

    def observe(self, report: StepReport) -> bool:
        meets = [part.observe(report) for part in self._parts]
        return any(meets)

    def state(self) -> dict[str, Any]:
        return {"parts": [part.state() for part in self._parts]}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of several controllers"
        known_fields(state, ("parts",), what)
        found = every(state, "parts", dict, what)
        if len(found) != len(self._parts):
            raise SpecError(f"{what} has that of each of {len(self._parts)}, not of {len(found)}.")
        for part, own in zip(self._parts, found, strict=True):
            part.restore(own)
