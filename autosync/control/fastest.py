"""Sending by the transport that is fastest as things are: each is tried every now and then (after AR-Topk)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import every, known_fields, required

TRIES = 4
"""Steps that each transport is tried for; the first of them says nothing, as it follows another one's."""


@final
class Fastest:
    """The one of `count` transports whose steps took least when tried last; all are tried again after `steps` steps."""

    def __init__(self, count: int, steps: int) -> None:
        self._count = count
        self._steps = steps
        self._chosen = 0
        self._done = 0
        self._seconds: list[tuple[float, ...]] = [()] * count

    def decide(self) -> Decision:
        tried = self._tried()
        return Decision(transport=self._chosen if tried is None else tried)

    def observe(self, report: StepReport) -> bool:
        tried = self._tried()
        if tried is None:
            self._done += 1
            if self._done >= self._steps:
                self._done, self._seconds = 0, [()] * self._count
            return False
        seconds = report.seconds if report.seconds is not None and math.isfinite(report.seconds) else 0.0
        self._seconds[tried] = (*self._seconds[tried], seconds)
        if self._tried() is None:
            medians = [statistics.median(each[1:]) for each in self._seconds]
            self._chosen = medians.index(min(medians))
        return False

    def _tried(self) -> int | None:
        """The transport that is being tried, if one is."""
        if self._count == 1:
            return None
        return next((number for number, each in enumerate(self._seconds) if len(each) < TRIES), None)

    def state(self) -> dict[str, Any]:
        return {"chosen": self._chosen, "done": self._done, "seconds": [list(each) for each in self._seconds]}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of transports"
        known_fields(state, ("chosen", "done", "seconds"), what)
        chosen, done = (required(state, name, int, what) for name in ("chosen", "done"))
        seconds = every(state, "seconds", list, what)
        right = len(seconds) == self._count and all(len(each) <= TRIES and _are_times(each) for each in seconds)
        if not 0 <= chosen < self._count or done < 0 or not right:
            raise SpecError(f"{what} has one of {self._count} chosen, and up to {TRIES} times of each.")
        self._chosen, self._done, self._seconds = chosen, done, [tuple(map(float, each)) for each in seconds]


def _are_times(values: list[Any]) -> bool:
    return all(isinstance(each, int | float) and not isinstance(each, bool) and 0 <= each < math.inf for each in values)
