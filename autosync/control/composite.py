"""A controller that combines several controllers for different parts of a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, final

from autosync.control.protocol import Controller
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_list

NOTHING = Decision()


@final
class CompositeController:
    """Merges the decisions of its parts. Replicas synchronize after a step if any part says so."""

    def __init__(self, parts: Sequence[Controller]) -> None:
        self._parts = tuple(parts)

    def decide(self) -> Decision:
        decided: dict[str, Any] = {}
        for part in self._parts:
            decision = part.decide()
            values = {field.name: getattr(decision, field.name) for field in fields(Decision)}
            decided |= {name: value for name, value in values.items() if value != getattr(NOTHING, name)}
        return Decision(**decided)

    def observe(self, report: StepReport) -> bool:
        meets = [part.observe(report) for part in self._parts]
        return any(meets)

    def state(self) -> dict[str, Any]:
        return {"parts": [part.state() for part in self._parts]}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of several controllers"
        check_fields(state, ("parts",), what)
        states = read_list(state, "parts", dict, what)
        if len(states) != len(self._parts):
            raise SpecError(f"{what} has the states of {len(self._parts)} controllers, not of {len(states)}.")
        for part, part_state in zip(self._parts, states, strict=True):
            part.restore(part_state)
