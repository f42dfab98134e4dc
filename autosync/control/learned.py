"""Waiting for as many as a model expects to be best that was fitted to the replicas' times so far (after BDSGD)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.control.filter import Filter
from autosync.control.run_times import LAST, Rows, RunTimes
from autosync.control.window import best_count
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import every, known_fields, optional, required

FIRST_FIT, AGAIN = 100, 200
"""The model is fitted first after so many steps, and further whenever so many are over."""

FIRST_ROUNDS, ROUNDS = 400, 100
"""Rounds over all that is remembered, in the first fit and in those that follow."""

REMEMBERED = 1000
"""The last steps that it is fitted to."""


@final
class Learned:
    """Waits for the count that the model's draws give the most gradients a second; as `Filter` until it is fitted.

    With `truncated` a time that was not seen is a bound from below; else it is replaced by one of the last ones seen.
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
        last = Rows.of(self._times[-LAST:], self._waits[-LAST:])
        draws = np.sort(self._model.draws(last).numpy(), axis=1)
        return Decision(first=best_count(draws.mean(0, dtype=np.float64)))

    def observe(self, report: StepReport) -> bool:
        seen = [each for each in report.arrivals if each is not None]
        if not seen or min(seen) <= 0:
            return False
        self._filter.observe(report)
        times = report.arrivals
        if not self._truncated:
            draw = np.random.default_rng(self._steps)
            times = tuple(float(draw.choice(seen)) if each is None else each for each in times)
        self._times = [*self._times, times][-REMEMBERED:]
        self._waits = [*self._waits, max(seen)][-REMEMBERED:]
        self._steps += 1
        if self._model is None and self._steps == FIRST_FIT:
            self._model = RunTimes(self._replicas)
            self._model.fit(Rows.of(self._times, self._waits), FIRST_ROUNDS)
        elif self._model is not None and self._steps % AGAIN == 0:
            self._model.fit(Rows.of(self._times, self._waits), ROUNDS)
        return False

    def state(self) -> dict[str, Any]:
        return {
            "steps": self._steps,
            "times": [list(each) for each in self._times],
            "waits": self._waits,
            "filter": self._filter.state(),
            "weights": None if self._model is None else self._model.weights(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a learned model"
        known_fields(state, ("steps", "times", "waits", "filter", "weights"), what)
        steps, waits = required(state, "steps", int, what), every(state, "waits", float, what)
        times = every(state, "times", list, what)
        weights = optional(state, "weights", dict, what)
        right = all(len(row) == self._replicas and all(_is_time(each) for each in row) for row in times)
        if (
            not right
            or len(times) != len(waits)
            or not min(steps, REMEMBERED) == len(times)
            or not all(map(_is_time, waits))
        ):
            raise SpecError(f"{what} has positive times of {self._replicas} replicas, or null, of each step's wait.")
        if (weights is None) != (steps < FIRST_FIT):
            raise SpecError(f"{what} has weights from the {FIRST_FIT}th step on, and none before.")
        self._filter.restore(required(state, "filter", dict, what))
        self._model = None
        if weights is not None:
            self._model = RunTimes(self._replicas)
            try:
                self._model.load(weights)
            except (TypeError, ValueError):
                raise SpecError(f"{what} has the finite weights of a model for {self._replicas} replicas.") from None
        self._steps, self._times, self._waits = steps, [tuple(row) for row in times], list(waits)


def _is_time(value: Any) -> bool:
    """Whether `value` is a time, or None for one that was not seen."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf)
