"""Hit-rates: the share of searched trials that were better than the best baseline beyond the noise.

Notation, in log seconds: y_i is a trial's median and e_i its standard error; y_b and e_b are the best baseline's. A
trial is a hit when y_i < y_b - 2 sqrt(e_i^2 + e_b^2). e_i is the deviation d between trials, which holds the noise
within them (`autosync.stats.noise`), or that of the median over the trial's own steps, where that is more or
d is not known; a baseline that was timed T times has e_b = d / sqrt(T). Where finals were held, on a machine that may
have drifted since, a hit beats the baseline both as it was timed among the trials and as it was in the finals. Trials
that were stopped or failed are no hits, and count.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autosync.spec import RuntimeRecord, median_interval
from autosync.stats.estimate import Estimate, share_of
from autosync.stats.noise import Noise

SURE = 2.0
FEWEST = 5
MOST_ROUNDS = 12
NORMAL_95 = 1.96


@dataclass(frozen=True)
class Yardstick:
    """The best baseline: median step `seconds` with a 95 % `interval`, and the standard `error` of their logarithm."""

    label: str
    digest: str
    seconds: float
    interval: tuple[float, float]
    error: float
    timings: int


@dataclass(frozen=True)
class HitRate:
    """The `share` of hits in the `trials` searched trials numbered `first` to `last`."""

    first: int
    last: int
    trials: int
    share: Estimate


def yardstick_of(timings: Sequence[RuntimeRecord], digest: str | None, noise: Noise) -> Yardstick | None:
    """The baseline `digest`, by the steps of its timing, or by its timings when it has several; None if it has none."""
    own = [each for each in timings if each.strategy.digest == digest and each.timed]
    if not own:
        return None
    medians = [each.median_seconds or 0.0 for each in own]
    if len(medians) > 1:
        error = (noise.between or 0.0) / math.sqrt(len(medians))
        seconds, interval = statistics.median(medians), median_interval(medians)
    else:
        seconds, interval = own[0].median_seconds or 0.0, median_interval(own[0].step_seconds)
        error = _error(own[0], noise)
    return Yardstick(own[0].label, own[0].strategy.digest, seconds, interval, error, len(medians))


def is_hit(record: RuntimeRecord, yardstick: Yardstick, noise: Noise) -> bool:
    if record.outcome != "ok" or record.median_seconds is None:
        return False
    error = math.hypot(_error(record, noise), yardstick.error)
    return math.log(record.median_seconds) < math.log(yardstick.seconds) - SURE * error


def hit_rates(numbered: Sequence[tuple[int, bool]]) -> list[HitRate]:
    """Hit-rates of rounds of equally many trials, `FEWEST` or more, `MOST_ROUNDS` or fewer; (number, hit) in order."""
    size = max(FEWEST, math.ceil(len(numbered) / MOST_ROUNDS))
    rounds = [list(numbered[begin : begin + size]) for begin in range(0, len(numbered), size)]
    if len(rounds) > 1 and len(rounds[-1]) < FEWEST:
        rest = rounds.pop()
        rounds[-1] += rest
    return [_rate(each) for each in rounds]


def _rate(numbered: Sequence[tuple[int, bool]]) -> HitRate:
    share = share_of(sum(hit for _, hit in numbered), len(numbered))
    return HitRate(numbered[0][0], numbered[-1][0], len(numbered), share)


def _error(record: RuntimeRecord, noise: Noise) -> float:
    """Standard error of the log of the trial's median; the one over its steps is by the width of their interval."""
    low, high = median_interval(record.step_seconds)
    return max((math.log(high) - math.log(low)) / (2 * NORMAL_95), noise.between or 0.0)
