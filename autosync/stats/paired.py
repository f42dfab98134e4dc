"""Speed-ups from rounds in which two strategies are timed one after the other: estimate and interval.

With b_r and c_r the median step seconds of baseline and candidate in round r of R, d_r = log(b_r / c_r). Drift of the
machine changes both medians of a round by the same factor and cancels in d_r, so R rounds are R observations,
regardless of the number of steps per round.

- The estimate is the Hodges-Lehmann estimate, exp(median over r <= s of (d_r + d_s) / 2). A round that was disturbed by
  other work on the machine changes it little.
- From `EXACT_FROM` rounds on, the interval is that of Wilcoxon's signed-rank test: two of the ordered averages
  (d_r + d_s) / 2. The only assumption is that, for equally fast strategies, swapping both within a round is as likely
  as not (Hollander, Wolfe, Chicken: "Nonparametric Statistical Methods", 2014, section 3.3).
- For fewer rounds, or an error too small for 2^R signs, the interval is Student's, mean(d) -+ t(R - 1) s / sqrt(R). The
  deviation s of a few rounds may be small by chance, so s is at least `noise`, which the caller pools over all
  finalists.

`python -m studies.by_hand.bench_judging` shows coverage and power.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import stdtrit

from autosync.numeric import FloatArray
from autosync.spec.node import LEAST_FIGURE, MOST_FIGURE

ERROR = 0.05
"""The probability that an interval does not contain the true speed-up."""

LEAST_ROUNDS = 3
"""The fewest rounds that give an interval."""

EXACT_FROM = 10
"""The fewest rounds for which the signed-rank interval is used."""


def log_ratios(slow: Sequence[float], fast: Sequence[float]) -> FloatArray:
    """d_r of each round, float64 (R,), from both strategies' median seconds per round."""
    return np.log(np.asarray(slow, np.float64)) - np.log(np.asarray(fast, np.float64))


def speedup_of(logs: FloatArray) -> float:
    """The Hodges-Lehmann estimate of the speed-up from d_r, float64 (R,) with R >= 1."""
    return math.exp(float(np.median(_averages(logs))))


def interval_of(logs: FloatArray, error: float = ERROR, noise: float = 0.0) -> tuple[float, float] | None:
    """The interval of the speed-up from d_r, float64 (R,). It misses the true speed-up with probability `error`, half
    of it on each side. None for fewer than `LEAST_ROUNDS` rounds.

    `noise` is the least standard deviation that Student's interval assumes for d_r. The ends are within the range
    of figures in files.
    """
    rounds = len(logs)
    if rounds < LEAST_ROUNDS:
        return None
    place = _signed_rank(rounds, error / 2) if rounds >= EXACT_FROM else 0
    if place:
        averages = np.sort(_averages(logs))
        low, high = averages[place - 1], averages[-place]
    else:
        middle, deviation = float(logs.mean()), max(noise, float(logs.std(ddof=1)))
        margin = float(stdtrit(rounds - 1, 1 - error / 2)) * deviation / math.sqrt(rounds)
        estimate = float(np.median(_averages(logs)))
        low, high = min(estimate, middle - margin), max(estimate, middle + margin)
    with np.errstate(over="ignore"):
        ends = np.clip(np.exp([low, high]), LEAST_FIGURE, MOST_FIGURE)
    return float(ends[0]), float(ends[1])


def too_few(rounds: int) -> str:
    """The words for a comparison without an interval."""
    subject = "1 round in turns is" if rounds == 1 else f"{rounds} rounds in turns are"
    return f"{subject} too few for an interval"


def pool_noise(medians: FloatArray) -> float:
    """Standard deviation of d_r between any two strategies, from `medians` in seconds, float64 (strategies, rounds).

    Strategies and rounds are the factors of a two-way layout without interaction. Its residuals have
    (strategies - 1)(rounds - 1) degrees of freedom. 0 for fewer than two strategies or two rounds.
    """
    strategies, rounds = medians.shape
    if strategies < 2 or rounds < 2:
        return 0.0
    logs = np.log(medians)
    residuals = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    return math.sqrt(2 * float((residuals**2).sum()) / ((strategies - 1) * (rounds - 1)))


def _averages(logs: FloatArray) -> FloatArray:
    """(d_r + d_s) / 2 of all r <= s, float64 (R (R + 1) / 2,)."""
    first, second = np.triu_indices(len(logs))
    return np.asarray((logs[first] + logs[second]) / 2)


@lru_cache(maxsize=1024)
def _signed_rank(rounds: int, tail: float) -> int:
    """The largest k with P(W < k) <= tail, where W sums the ranks 1..R whose independent fair signs are positive; 0 if
    no k exists.
    """
    counts = np.zeros(rounds * (rounds + 1) // 2 + 1)
    counts[0] = 1.0
    for rank in range(1, rounds + 1):
        counts[rank:] += counts[:-rank].copy()
    below = np.cumsum(counts) / 2.0**rounds
    return int(np.searchsorted(below, tail, side="right"))
