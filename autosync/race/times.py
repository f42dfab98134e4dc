"""How long candidates took to the target, by seed, and what that says of their difference."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosync.spec import TargetRecord
from autosync.stats.estimate import Estimate, estimate_of, resampled


@dataclass(frozen=True)
class Time:
    """What a run took to the target; `reached` is False where that is only a bound from below.

    `projected` is what it would have taken, and in how many steps, if it had gone on as it did beside the run that was
    ahead; the same where it was reached, and infinite where nobody knows.
    """

    seconds: float
    reached: bool
    projected: float
    steps: float
    step_seconds: float

    @property
    def likely(self) -> float:
        """The projected seconds, or where nobody knows what the run took: it takes longer."""
        return self.projected if math.isfinite(self.projected) else self.seconds


@dataclass
class Times:
    """Of candidates, by name and seed. The first record of a run counts, and none that failed for another reason."""

    of: dict[str, dict[int, Time]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, record: TargetRecord, rival_seconds: float) -> None:
        """Note the run of `name` beside one that took `rival_seconds` in all."""
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
        self.of.setdefault(name, {}).setdefault(
            record.seed,
            Time(record.seconds, reached, projected, steps if math.isfinite(projected) else math.inf, step_seconds),
        )

    def seeds(self, name: str) -> Mapping[int, Time]:
        return self.of.get(name, {})

    def mean(self, name: str) -> float:
        """The geometric mean of projected seconds."""
        return math.exp(statistics.fmean(math.log(each.projected) for each in self.of[name].values()))


def speed_up(times: Times, name: str, over: str, seeds: Sequence[int]) -> Estimate:
    """How many times as fast as `over` the candidate `name` was: the geometric mean over the paired `seeds`.

    With the 95 % interval over resampled seeds. A run that was given up counts as long as it would have taken; one that
    came to its end without the target as long as it did, which is a bound.
    """
    mine, its = times.seeds(name), times.seeds(over)
    logs = [math.log(its[seed].likely / mine[seed].likely) for seed in seeds if seed in mine and seed in its]
    if not logs:
        return Estimate(math.nan, 0.0, math.inf)
    if len(logs) == 1:
        return Estimate(math.exp(logs[0]), 0.0, math.inf)
    return estimate_of(np.exp(resampled([np.array(logs)], np.mean)[:, 0]))
