"""The profile noun: how long one replica's passes take, and when each gradient is there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autosync.errors import SpecError
from autosync.spec.fields import known_fields, required
from autosync.spec.quoting import quoted

__all__ = ["ModelProfile"]


@dataclass(frozen=True)
class ModelProfile:
    """A profiled step of one model: core-seconds that one replica's forward and backward pass take on a CPU.

    `ready` is for every variable the fraction of the backward pass after which its gradient is there, from 0 to 1.
    """

    forward_seconds: float
    backward_seconds: float
    ready: Mapping[str, float] = field(hash=False)

    def __post_init__(self) -> None:
        if not all(math.isfinite(each) and each > 0 for each in (self.forward_seconds, self.backward_seconds)):
            raise SpecError(
                "A profile's passes take positive seconds, not "
                f"{quoted(self.forward_seconds)} and {quoted(self.backward_seconds)}."
            )
        for name, fraction in self.ready.items():
            if not 0 <= fraction <= 1:
                raise SpecError(f"Variable {quoted(name)} is ready at a fraction from 0 to 1, not {quoted(fraction)}.")
        object.__setattr__(self, "ready", dict(self.ready))

    def to_json(self) -> dict[str, Any]:
        return {
            "forward_seconds": self.forward_seconds,
            "backward_seconds": self.backward_seconds,
            "ready": dict(self.ready),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ModelProfile:
        what = "A profile"
        known_fields(document, ("forward_seconds", "backward_seconds", "ready"), what)
        ready = required(document, "ready", dict, what)
        return cls(
            required(document, "forward_seconds", float, what),
            required(document, "backward_seconds", float, what),
            {name: required(ready, name, float, "A profile's ready") for name in ready},
        )
