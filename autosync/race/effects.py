"""Estimates the effect of each discipline on steps and step time, and predicts the effect of combinations."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autosync.race.candidates import PLAIN_NAME, Candidate
from autosync.race.times import Time, Times

INTERACTION_DEVIATION = 0.15
"""Standard deviation of the error made by adding the logarithms of two parts."""

SEED_DEVIATION = 0.1
"""Standard deviation of one seed's logarithm around the mean over seeds; used until two seeds have been measured."""


@dataclass(frozen=True)
class ExpectedEffect:
    """An effect relative to the plain strategy, in logarithms."""

    log_steps: float
    """The logarithm of the ratio of steps."""
    log_step_seconds: float
    """The logarithm of the ratio of seconds a step."""
    deviation: float
    """The standard deviation of the sum of both logarithms."""

    @property
    def log_seconds(self) -> float:
        return self.log_steps + self.log_step_seconds


def effects(candidates: Iterable[Candidate], times: Times) -> dict[str, ExpectedEffect]:
    """Estimate each part's effect from the candidates that have this part only, paired with plain runs by seed."""
    plain = times.seeds(PLAIN_NAME)
    by_part = {}
    for candidate in candidates:
        if len(candidate.parts) == 1 and (effect := _effect_of(times.seeds(candidate.name), plain)) is not None:
            by_part[candidate.parts[0].name] = effect
    return by_part


def predict_effect(candidate: Candidate, of_parts: Mapping[str, ExpectedEffect]) -> ExpectedEffect | None:
    """Predict the candidate's effect, assuming that logarithms add up; None if the effect of a part is unknown."""
    known = [of_parts[part.name] for part in candidate.parts if part.name in of_parts]
    if len(known) < len(candidate.parts) or not known:
        return None
    variance = sum(effect.deviation**2 for effect in known) + (len(known) - 1) * INTERACTION_DEVIATION**2
    return ExpectedEffect(
        sum(effect.log_steps for effect in known), sum(effect.log_step_seconds for effect in known), math.sqrt(variance)
    )


def _effect_of(times: Mapping[int, Time], plain: Mapping[int, Time]) -> ExpectedEffect | None:
    pairs = [(times[seed], plain[seed]) for seed in times if seed in plain]
    pairs = [
        (time, plain_time)
        for time, plain_time in pairs
        if math.isfinite(time.steps) and math.isfinite(plain_time.steps)
    ]
    if not pairs:
        return None
    steps = [math.log(time.steps / plain_time.steps) for time, plain_time in pairs]
    seconds = [math.log(time.step_seconds / plain_time.step_seconds) for time, plain_time in pairs]
    totals = [log_steps + log_seconds for log_steps, log_seconds in zip(steps, seconds, strict=True)]
    deviation = statistics.stdev(totals) if len(totals) > 1 else SEED_DEVIATION
    return ExpectedEffect(statistics.fmean(steps), statistics.fmean(seconds), deviation / math.sqrt(len(totals)))
