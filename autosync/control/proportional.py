"""Loads by speed, corrected while training: dynamic batching (Tyagi and Sharma 2020)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, Loads, StepReport
from autosync.spec.codec import every, known_fields

WINDOW = 5
"""Steps whose mean times decide; after a change as many are waited for."""

NEAR = 1e-6
"""How far the shares of a saved state may be from adding up to 1."""


@final
class Proportional:
    """Each share becomes what would take the mean's time, once any is to change by more than the dead band."""

    def __init__(self, loads: Loads) -> None:
        assert loads.dead_band is not None
        self._dead_band = loads.dead_band
        replicas = len(loads.parts)
        self._bounds = loads.least / replicas, loads.most / replicas
        self._shares = loads.shares
        self._times: tuple[tuple[float, ...], ...] = ()

    def decide(self) -> Decision:
        return Decision(loads=self._shares)

    def observe(self, report: StepReport) -> bool:
        times = tuple(each for each in report.arrivals if each is not None and 0 < each < math.inf)
        if len(times) != len(self._shares):
            return False  # one that was not waited for leaves its time open
        self._times = (*self._times, times)[-WINDOW:]
        if len(self._times) < WINDOW:
            return False
        means = [statistics.fmean(of_replica) for of_replica in zip(*self._times, strict=True)]
        wanted = within([share / time for share, time in zip(self._shares, means, strict=True)], *self._bounds)
        changes = [abs(new - old) / old for new, old in zip(wanted, self._shares, strict=True)]
        if max(changes) > self._dead_band:
            self._shares, self._times = wanted, ()
        return False

    def state(self) -> dict[str, Any]:
        return {"shares": list(self._shares), "times": [list(each) for each in self._times]}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of proportional loads"
        known_fields(state, ("shares", "times"), what)
        shares, times = every(state, "shares", float, what), every(state, "times", list, what)
        are_shares = all(0 < each <= 1 for each in shares) and abs(sum(shares) - 1) < NEAR
        if len(shares) != len(self._shares) or not are_shares or not all(map(self._are_times, times)):
            raise SpecError(
                f"{what} has a share, and times of its last steps, for each of {len(self._shares)} replicas."
            )
        self._shares, self._times = shares, tuple(tuple(map(float, each)) for each in times)

    def _are_times(self, row: list[Any]) -> bool:
        numbers = [each for each in row if isinstance(each, int | float) and not isinstance(each, bool)]
        return len(row) == len(numbers) == len(self._shares) and all(0 < each < math.inf for each in numbers)


def within(speeds: Sequence[float], least: float, most: float) -> tuple[float, ...]:
    """Shares by `speeds` that add up to 1, each from `least` to `most`; the others make up for those at a bound."""
    shares = [each / sum(speeds) for each in speeds]
    held: dict[int, float] = {}
    while True:
        over = {number: most for number, each in enumerate(shares) if each > most and number not in held}
        under = {number: least for number, each in enumerate(shares) if each < least and number not in held}
        if not over and not under:
            return tuple(shares)
        too_much, too_little = (sum(abs(shares[number] - each) for number, each in of.items()) for of in (over, under))
        held |= over if too_much >= too_little else under
        free = [number for number in range(len(speeds)) if number not in held]
        left, of_free = 1 - sum(held.values()), sum(speeds[number] for number in free)
        shares = [held.get(number, left * speeds[number] / of_free if free else 0.0) for number in range(len(speeds))]
