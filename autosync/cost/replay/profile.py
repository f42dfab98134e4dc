"""How long a replica computes, and when each gradient is ready: measured, or estimated from flops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from autosync.cost.readiness import ready_fractions
from autosync.cost.replay.coefficients import ReplayCoefficients
from autosync.errors import SpecError
from autosync.spec import ModelSpec
from autosync.spec.fields import known_fields, required

__all__ = ["ModelProfile", "Passes"]


@dataclass(frozen=True)
class ModelProfile:
    """A profiled step of one model: core-seconds (seconds of a GPU) that one replica's passes take.

    `ready` is for every variable the fraction of the backward pass after which its gradient is there, from 0 to 1.
    """

    forward_seconds: float
    backward_seconds: float
    ready: Mapping[str, float]

    def __post_init__(self) -> None:
        if not all(math.isfinite(each) and each > 0 for each in (self.forward_seconds, self.backward_seconds)):
            raise SpecError(
                f"A profile's passes take positive seconds, not {self.forward_seconds!r} and {self.backward_seconds!r}."
            )
        for name, fraction in self.ready.items():
            if not 0 <= fraction <= 1:
                raise SpecError(f"Variable {name!r} is ready at a fraction from 0 to 1, not {fraction!r}.")
        object.__setattr__(self, "ready", MappingProxyType(dict(self.ready)))

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
        return cls(
            required(document, "forward_seconds", float, what),
            required(document, "backward_seconds", float, what),
            {name: float(fraction) for name, fraction in required(document, "ready", dict, what).items()},
        )


@dataclass(frozen=True, eq=False)
class Passes:
    """One replica's forward and backward pass of a model, by its profile if there is one."""

    model: ModelSpec
    profile: ModelProfile | None = None

    def __post_init__(self) -> None:
        if self.profile is None:
            return
        missing = [each.name for each in self.model.variables if each.name not in self.profile.ready]
        if missing:
            raise SpecError(f"The profile of model {self.model.name!r} does not say when {missing[0]!r} is ready.")

    @cached_property
    def ready(self) -> Mapping[str, float]:
        """For each variable the fraction of the backward pass after which its gradient is there."""
        return ready_fractions(self.model) if self.profile is None else self.profile.ready

    @cached_property
    def _flops(self) -> float:
        return self.model.flops

    def core_seconds(self, coefficients: ReplayCoefficients) -> tuple[float, float]:
        """Core-seconds of both passes on a node's cores."""
        return self._seconds(coefficients.core_seconds_per_flop, coefficients.profile_scale)

    def gpu_seconds(self, coefficients: ReplayCoefficients) -> tuple[float, float]:
        """Seconds of both passes on a GPU."""
        return self._seconds(coefficients.gpu_seconds_per_flop, coefficients.profile_scale)

    def _seconds(self, seconds_per_flop: float, profile_scale: float) -> tuple[float, float]:
        if self.profile is not None:
            return self.profile.forward_seconds * profile_scale, self.profile.backward_seconds * profile_scale
        forward = self._flops * seconds_per_flop
        return forward, 2 * forward
