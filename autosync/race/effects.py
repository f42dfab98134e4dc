"""What parts of a discipline do to steps and to their seconds, and what combinations are expected to do."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autosync.race.candidates import PLAIN_NAME, Candidate
from autosync.race.times import Time, Times

INTERACTION = 0.15
"""How far logarithms of two parts are from adding up, as a standard deviation."""

OF_A_SEED = 0.1
"""How far one seed's logarithm is from the mean of all, as a standard deviation, until two seeds say it."""


@dataclass(frozen=True)
class Expected:
    """Beside a plain strategy: logarithms of how many times the steps, and how many times the seconds of each; and the
    standard deviation of both together.
    """

    log_steps: float
    log_step_seconds: float
    deviation: float

    @property
    def log_seconds(self) -> float:
        return self.log_steps + self.log_step_seconds


def effects(candidates: Iterable[Candidate], times: Times) -> dict[str, Expected]:
    """What each part does, by the runs of candidates that have no other: beside plain ones of the same seeds."""
    plain = times.seeds(PLAIN_NAME)
    found = {}
    for each in candidates:
        if len(each.parts) == 1 and (own := _of(times.seeds(each.name), plain)) is not None:
            found[each.parts[0].name] = own
    return found


def expected(candidate: Candidate, of_parts: Mapping[str, Expected]) -> Expected | None:
    """What the candidate's parts do together, if logarithms add up; None where one of them is not known."""
    known = [of_parts[each.name] for each in candidate.parts if each.name in of_parts]
    if len(known) < len(candidate.parts) or not known:
        return None
    variance = sum(each.deviation**2 for each in known) + (len(known) - 1) * INTERACTION**2
    return Expected(
        sum(each.log_steps for each in known), sum(each.log_step_seconds for each in known), math.sqrt(variance)
    )


def _of(mine: Mapping[int, Time], plain: Mapping[int, Time]) -> Expected | None:
    pairs = [(mine[seed], plain[seed]) for seed in mine if seed in plain]
    pairs = [(own, its) for own, its in pairs if math.isfinite(own.steps) and math.isfinite(its.steps)]
    if not pairs:
        return None
    steps = [math.log(own.steps / its.steps) for own, its in pairs]
    seconds = [math.log(own.step_seconds / its.step_seconds) for own, its in pairs]
    both = [one + other for one, other in zip(steps, seconds, strict=True)]
    deviation = statistics.stdev(both) if len(both) > 1 else OF_A_SEED
    return Expected(statistics.fmean(steps), statistics.fmean(seconds), deviation / math.sqrt(len(both)))
