"""Keeps the smallest part of a gradient that still has enough energy: GraVAC (Tyagi and Swany 2023, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_list, read_required

SMOOTHING = 0.01
"""A step's weight in the smoothed shares, per replica: the authors use N / 100 for N replicas."""


def smooth(shares: tuple[float, ...], report: StepReport, weight: float) -> tuple[float, ...]:
    """Smooth the shares of energy that the ratios keep, averaged over replicas; `report` has weight `weight`."""
    seen = [sum(of_ratio) / len(report.energies) for of_ratio in zip(*report.energies, strict=True)]
    if not seen or not all(map(math.isfinite, seen)):
        return shares
    return tuple(old + weight * (new - old) for old, new in zip(shares or seen, seen, strict=True))


@final
class KeptEnergy:
    """Keeps the last tried ratio whose share of energy is at least `keeps`, or else the first ratio.

    Every `steps` steps one more ratio counts as tried.
    """

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
        self._shares = smooth(self._shares, report, self._weight)
        return False

    def state(self) -> dict[str, Any]:
        return {"done": self._done, "shares": list(self._shares)}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a kept energy"
        check_fields(state, ("done", "shares"), what)
        done, shares = read_required(state, "done", int, what), read_list(state, "shares", float, what)
        if done < 0 or len(shares) not in (0, self._count) or not all(map(math.isfinite, shares)):
            raise SpecError(f"{what} has a finite share for each of {self._count} ratios, or no shares yet.")
        self._done, self._shares = done, shares
