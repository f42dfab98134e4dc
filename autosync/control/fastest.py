"""Sends by the transport that is fastest at present: all are tried at intervals (after AR-Topk)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_list, read_required

TRIES = 4
"""Steps for which each transport is tried. The first step is ignored because the step before used another transport."""


@final
class Fastest:
    """Chooses the transport of `count` whose median step was shortest in the last try; retries every `steps` steps."""

    def __init__(self, count: int, steps: int) -> None:
        self._count = count
        self._steps = steps
        self._chosen = 0
        self._done = 0
        self._seconds: list[tuple[float, ...]] = [()] * count

    def decide(self) -> Decision:
        tried = self._on_trial()
        return Decision(transport=self._chosen if tried is None else tried)

    def observe(self, report: StepReport) -> bool:
        tried = self._on_trial()
        if tried is None:
            self._done += 1
            if self._done >= self._steps:
                self._done, self._seconds = 0, [()] * self._count
            return False
        seconds = report.seconds if report.seconds is not None and math.isfinite(report.seconds) else 0.0
        self._seconds[tried] = (*self._seconds[tried], seconds)
        if self._on_trial() is None:
            medians = [statistics.median(seconds[1:]) for seconds in self._seconds]
            self._chosen = medians.index(min(medians))
        return False

    def _on_trial(self) -> int | None:
        """The transport that is being tried, if one is."""
        if self._count == 1:
            return None
        return next((number for number, seconds in enumerate(self._seconds) if len(seconds) < TRIES), None)

    def state(self) -> dict[str, Any]:
        return {"chosen": self._chosen, "done": self._done, "seconds": [list(seconds) for seconds in self._seconds]}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of transports"
        check_fields(state, ("chosen", "done", "seconds"), what)
        chosen, done = (read_required(state, name, int, what) for name in ("chosen", "done"))
        seconds = read_list(state, "seconds", list, what)
        right = len(seconds) == self._count and all(len(times) <= TRIES and _are_times(times) for times in seconds)
        if not 0 <= chosen < self._count or done < 0 or not right:
            raise SpecError(f"{what} has a chosen one of {self._count} transports, and at most {TRIES} times of each.")
        self._chosen, self._done, self._seconds = chosen, done, [tuple(map(float, times)) for times in seconds]


def _are_times(values: list[Any]) -> bool:
    return all(isinstance(time, int | float) and not isinstance(time, bool) and 0 <= time < math.inf for time in values)
