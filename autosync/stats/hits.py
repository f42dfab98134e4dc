"""Hit-rates: the share of searched trials that beat the best baseline beyond the noise.

Notation, in log seconds: y_i is a trial's median and e_i its standard error; y_b and e_b are the best baseline's. A
trial is a hit if y_i < y_b - 2 sqrt(e_i^2 + e_b^2). e_i is the larger of the deviation d between trials, which includes
the noise within trials (`autosync.stats.noise`), and the standard error of the median over the trial's steps; only the
latter if d is unknown. A baseline that was timed T times has e_b = d / sqrt(T). If finals took place, the machine may
have drifted since the trials, so a hit must beat the baseline's timings in the trials and in the finals. Stopped and
failed trials count as trials without a hit.
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
    """The step time of the best baseline, which hits must beat."""

    label: str
    digest: str
    """Digest of the baseline's strategy."""
    seconds: float
    """Median step seconds."""
    interval: tuple[float, float]
    """95 % interval of `seconds`."""
    error: float
    """Standard error of the logarithm of `seconds`."""
    timings: int
    """Number of times that the baseline was timed."""


@dataclass(frozen=True)
class HitRate:
    """The `share` of hits in the `trials` searched trials numbered `first` to `last`."""

    first: int
    last: int
    trials: int
    share: Estimate


def yardstick_of(timings: Sequence[RuntimeRecord], digest: str | None, noise: Noise) -> Yardstick | None:
    """The yardstick of the baseline `digest`, from the steps of its timing or from the medians of several timings.

    None without a timing.
    """
    own_records = [record for record in timings if record.strategy.digest == digest and record.timed]
    if not own_records:
        return None
    medians = [record.median_seconds or 0.0 for record in own_records]
    if len(medians) > 1:
        error = (noise.between or 0.0) / math.sqrt(len(medians))
        seconds, interval = statistics.median(medians), median_interval(medians)
    else:
        seconds, interval = own_records[0].median_seconds or 0.0, median_interval(own_records[0].step_seconds)
        error = _error(own_records[0], noise)
    return Yardstick(own_records[0].label, own_records[0].strategy.digest, seconds, interval, error, len(medians))


def is_hit(record: RuntimeRecord, yardstick: Yardstick, noise: Noise) -> bool:
    if record.outcome != "ok" or record.median_seconds is None:
        return False
    error = math.hypot(_error(record, noise), yardstick.error)
    return math.log(record.median_seconds) < math.log(yardstick.seconds) - SURE * error


def hit_rates(numbered: Sequence[tuple[int, bool]]) -> list[HitRate]:
    """Hit-rates of at most `MOST_ROUNDS` rounds of equally many trials, at least `FEWEST`.

    `numbered` are pairs (number of the trial, whether it is a hit), in order.
    """
    size = max(FEWEST, math.ceil(len(numbered) / MOST_ROUNDS))
    rounds = [list(numbered[begin : begin + size]) for begin in range(0, len(numbered), size)]
    if len(rounds) > 1 and len(rounds[-1]) < FEWEST:
        rest = rounds.pop()
        rounds[-1] += rest
    return [_rate(trials) for trials in rounds]


def _rate(numbered: Sequence[tuple[int, bool]]) -> HitRate:
    share = share_of(sum(hit for _, hit in numbered), len(numbered))
    return HitRate(numbered[0][0], numbered[-1][0], len(numbered), share)


def _error(record: RuntimeRecord, noise: Noise) -> float:
    """Standard error of the log of the trial's median. The width of the steps' interval gives the error over steps."""
    low, high = median_interval(record.step_seconds)
    return max((math.log(high) - math.log(low)) / (2 * NORMAL_95), noise.between or 0.0)
