"""Times to the target, by candidate and seed, and ratios between candidates."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosync.spec import TargetRecord
from autosync.stats.estimate import Estimate, estimate_of, resample


@dataclass(frozen=True)
class Time:
    """One run's time to the target."""

    seconds: float
    """Seconds to the target, or until the run ended without it."""
    reached: bool
    """False if `seconds` is only a lower bound."""
    projected: float
    """`seconds` if the target was reached; otherwise extrapolated from the lag behind the rival, or infinite if
    unknown.
    """
    steps: float
    """The steps to the target, extrapolated like `projected`."""
    step_seconds: float
    """The median seconds a step; NaN without a step."""

    @property
    def likely(self) -> float:
        """The projected seconds; if unknown, the seconds of the run, which are a lower bound."""
        return self.projected if math.isfinite(self.projected) else self.seconds


@dataclass
class Times:
    """The times of all candidates. Only the first record of a run counts. `faults` are the reasons of failures."""

    by_candidate: dict[str, dict[int, Time]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, record: TargetRecord, rival_seconds: float) -> None:
        """Note the run of `name`, whose rival took `rival_seconds` in all."""
        if record.outcome in ("failed", "lost"):
            self.faults[name] = record.reason
            return
        reached = record.outcome == "reached"
        steps = float(record.steps)
        step_seconds = statistics.median(record.step_seconds) if record.step_seconds else math.nan
        projected = record.seconds if reached else math.inf
        if record.behind is not None:
            projected = record.behind * rival_seconds
            steps = projected / step_seconds
        self.by_candidate.setdefault(name, {}).setdefault(
            record.seed,
            Time(record.seconds, reached, projected, steps if math.isfinite(projected) else math.inf, step_seconds),
        )

    def seeds(self, name: str) -> Mapping[int, Time]:
        return self.by_candidate.get(name, {})

    def mean(self, name: str) -> float:
        """The geometric mean of the projected seconds."""
        return math.exp(statistics.fmean(math.log(time.projected) for time in self.by_candidate[name].values()))


def speedup(times: Times, name: str, over: str, seeds: Sequence[int]) -> Estimate:
    """Return how many times faster `name` was than `over`: the geometric mean over the paired `seeds`, with a 95 %
    interval.

    The interval resamples seeds. A run that was given up counts with its projected time; a run that ended without the
    target counts with its own time, which is a lower bound.
    """
    candidate_times, other_times = times.seeds(name), times.seeds(over)
    logs = [
        math.log(other_times[seed].likely / candidate_times[seed].likely)
        for seed in seeds
        if seed in candidate_times and seed in other_times
    ]
    if not logs:
        return Estimate(math.nan, 0.0, math.inf)
    if len(logs) == 1:
        return Estimate(math.exp(logs[0]), 0.0, math.inf)
    return estimate_of(np.exp(resample([np.array(logs)], np.mean)[:, 0]))
