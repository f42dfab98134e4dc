"""Keeping as little of a gradient as still holds its energy: GraVAC (Tyagi and Swany 2023, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import every, known_fields, required

SMOOTHING = 0.01
"""What a step weighs in the smoothed shares, for each replica that there is, as the authors' N / 100."""


def smoothed(shares: tuple[float, ...], report: StepReport, weight: float) -> tuple[float, ...]:
    """The share of a gradient that each ratio keeps, the mean of all replicas', smoothed: this step's has `weight`."""
    seen = [sum(of_ratio) / len(report.energies) for of_ratio in zip(*report.energies, strict=True)]
    if not seen or not all(map(math.isfinite, seen)):
        return shares
    return tuple(old + weight * (new - old) for old, new in zip(shares or seen, seen, strict=True))


@final
class KeptEnergy:
    """The last ratio of those tried that `keeps` the share, or the first; one more is tried every `steps` steps."""

    def __init__(self, count: int, steps: int, keeps: float, replicas: int) -> None:
        self._count = count
        self._steps = steps
        self._keeps = keeps
        self._weight = min(1.0, SMOOTHING * replicas)
        self._done = 0
        self._shares: tuple[float, ...] = ()

    def decide(self) -> Decision:
        tried = self._shares[: 1 + self._done // self._steps]
        enough = [number for number, share in enumerate(tried) if share >= self._keeps]
        return Decision(ratio=enough[-1] if enough else 0, watches=True)

    def observe(self, report: StepReport) -> bool:
        self._done += 1
        self._shares = smoothed(self._shares, report, self._weight)
        return False

    def state(self) -> dict[str, Any]:
        return {"done": self._done, "shares": list(self._shares)}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a kept energy"
        known_fields(state, ("done", "shares"), what)
        done, shares = required(state, "done", int, what), every(state, "shares", float, what)
        if done < 0 or len(shares) not in (0, self._count) or not all(map(math.isfinite, shares)):
            raise SpecError(f"{what} has a finite share for each of {self._count} ratios, or none yet.")
        self._done, self._shares = done, shares
