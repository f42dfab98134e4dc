"""Splits examples by the speed of replicas, corrected during training: dynamic batching (Tyagi and Sharma 2020)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, Loads, StepReport
from autosync.spec.codec import check_fields, read_list

WINDOW = 5
"""The number of steps whose mean times decide; after a change, as many new steps are needed."""

NEAR = 1e-6
"""The allowed difference between 1 and the sum of a saved state's shares."""


@final
class Proportional:
    """Sets shares so that all replicas take equally long, once a share would change by more than the dead band."""

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
        times = tuple(time for time in report.arrivals if time is not None and 0 < time < math.inf)
        if len(times) != len(self._shares):
            return False  # the time of a replica that was not waited for is unknown
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
        return {"shares": list(self._shares), "times": [list(row) for row in self._times]}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of proportional loads"
        check_fields(state, ("shares", "times"), what)
        shares, times = read_list(state, "shares", float, what), read_list(state, "times", list, what)
        are_shares = all(0 < share <= 1 for share in shares) and abs(sum(shares) - 1) < NEAR
        if len(shares) != len(self._shares) or not are_shares or not all(map(self._are_times, times)):
            raise SpecError(
                f"{what} has a share, and times of its last steps, for each of {len(self._shares)} replicas."
            )
        self._shares, self._times = shares, tuple(tuple(map(float, row)) for row in times)

    def _are_times(self, row: list[Any]) -> bool:
        numbers = [time for time in row if isinstance(time, int | float) and not isinstance(time, bool)]
        return len(row) == len(numbers) == len(self._shares) and all(0 < time < math.inf for time in numbers)


def within(speeds: Sequence[float], least: float, most: float) -> tuple[float, ...]:
    """Shares proportional to `speeds`, which add up to 1 and are between `least` and `most`.

    Shares outside the bounds are set to a bound, and the remaining shares divide the rest by speed. If shares break
    both bounds, the side with the larger excess is set first, because that changes whether the others still break
    theirs.
    """
    shares = [speed / sum(speeds) for speed in speeds]
    held: dict[int, float] = {}
    while True:
        over = {number: most for number, share in enumerate(shares) if share > most and number not in held}
        under = {number: least for number, share in enumerate(shares) if share < least and number not in held}
        if not over and not under:
            return tuple(shares)
        too_much, too_little = (
            sum(abs(shares[number] - bound) for number, bound in outside.items()) for outside in (over, under)
        )
        held |= over if too_much >= too_little else under
        free = [number for number in range(len(speeds)) if number not in held]
        left, of_free = 1 - sum(held.values()), sum(speeds[number] for number in free)
        shares = [held.get(number, left * speeds[number] / of_free if free else 0.0) for number in range(len(speeds))]
