"""How long a replica computes, and when each gradient is ready: profiled, or estimated from flops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from autosync.cost.computing import ready_fractions
from autosync.cost.replay.coefficients import ReplayCoefficients
from autosync.spec import ModelSpec

__all__ = ["Passes"]


@dataclass(frozen=True, eq=False)
class Passes:
    """One replica's forward and backward pass of a model, on a CPU by its profile if there is one."""

    model: ModelSpec

    @cached_property
    def ready(self) -> Mapping[str, float]:
        """The fraction of the backward pass after which each variable's gradient is there."""
        return ready_fractions(self.model)

    @cached_property
    def _flops(self) -> float:
        return self.model.flops

    def core_seconds(self, coefficients: ReplayCoefficients) -> tuple[float, float]:
        """Core-seconds of both passes on a node's cores."""
        profile = self.model.profile
        if profile is None:
            forward = self._flops * coefficients.core_seconds_per_flop
            return forward, 2 * forward
        scale = coefficients.profile_scale
        return profile.forward_seconds * scale, profile.backward_seconds * scale

    def gpu_seconds(self, coefficients: ReplayCoefficients) -> tuple[float, float]:
        """Seconds of both passes on a GPU."""
        forward = self._flops * coefficients.gpu_seconds_per_flop
        return forward, 2 * forward
