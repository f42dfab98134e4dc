"""Waits for the replica count that is best by a generative model of the replicas' times (after BDSGD)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.control.filter import Filter
from autosync.control.run_times import LAST, CensoredTimes, RunTimes
from autosync.control.window import best_count
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_list, read_optional, read_required

FIRST_FIT, AGAIN = 100, 200
"""The model is first fitted after `FIRST_FIT` steps, and fitted further every `AGAIN` steps."""

FIRST_ROUNDS, ROUNDS = 400, 100
"""Rounds over the remembered steps, in the first fit and in later fits."""

REMEMBERED = 1000
"""The number of most recent steps that the model is fitted to."""


@final
class LearnedTimeController:
    """Waits for the count with the most gradients a second in the model's draws; decides like `Filter` until fitted.

    With `truncated`, an unseen time enters the model as a lower bound. Otherwise a random seen time of the same step
    replaces it.
    """

    def __init__(self, replicas: int, truncated: bool) -> None:
        self._replicas = replicas
        self._truncated = truncated
        self._filter = Filter(replicas)
        self._steps = 0
        self._times: list[tuple[float | None, ...]] = []
        self._waits: list[float] = []
        self._model: RunTimes | None = None

    def decide(self) -> Decision:
        if self._model is None:
            return self._filter.decide()
        last = CensoredTimes.of(self._times[-LAST:], self._waits[-LAST:])
        draws = np.sort(self._model.draws(last).numpy(), axis=1)
        return Decision(first=best_count(draws.mean(0, dtype=np.float64)))

    def observe(self, report: StepReport) -> bool:
        seen = [arrival for arrival in report.arrivals if arrival is not None]
        if not seen or min(seen) <= 0:
            return False
        self._filter.observe(report)
        times = report.arrivals
        if not self._truncated:
            draw = np.random.default_rng(self._steps)
            times = tuple(float(draw.choice(seen)) if time is None else time for time in times)
        self._times = [*self._times, times][-REMEMBERED:]
        self._waits = [*self._waits, max(seen)][-REMEMBERED:]
        self._steps += 1
        if self._model is None and self._steps == FIRST_FIT:
            self._model = RunTimes(self._replicas)
            self._model.fit(CensoredTimes.of(self._times, self._waits), FIRST_ROUNDS)
        elif self._model is not None and self._steps % AGAIN == 0:
            self._model.fit(CensoredTimes.of(self._times, self._waits), ROUNDS)
        return False

    def state(self) -> dict[str, Any]:
        return {
            "steps": self._steps,
            "times": [list(row) for row in self._times],
            "waits": self._waits,
            "filter": self._filter.state(),
            "weights": None if self._model is None else self._model.weights(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a learned model"
        check_fields(state, ("steps", "times", "waits", "filter", "weights"), what)
        steps, waits = read_required(state, "steps", int, what), read_list(state, "waits", float, what)
        times = read_list(state, "times", list, what)
        weights = read_optional(state, "weights", dict, what)
        right = all(len(row) == self._replicas and all(_is_time(time) for time in row) for row in times)
        if (
            not right
            or len(times) != len(waits)
            or not min(steps, REMEMBERED) == len(times)
            or not all(map(_is_time, waits))
        ):
            raise SpecError(f"{what} has a wait for each step, and {self._replicas} times that are positive or null.")
        if (weights is None) != (steps < FIRST_FIT):
            raise SpecError(f"{what} has weights if and only if it has seen at least {FIRST_FIT} steps.")
        self._filter.restore(read_required(state, "filter", dict, what))
        self._model = None
        if weights is not None:
            self._model = RunTimes(self._replicas)
            try:
                self._model.load(weights)
            except (TypeError, ValueError):
                raise SpecError(f"{what} has the finite weights of a model for {self._replicas} replicas.") from None
        self._steps, self._times, self._waits = steps, [tuple(row) for row in times], list(waits)


def _is_time(value: Any) -> bool:
    """Whether `value` is a positive time, or None for an unseen time."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf)
