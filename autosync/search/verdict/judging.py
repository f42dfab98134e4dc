"""Measuring the finalists again, in turns, and the verdict: is the winner faster than the best baseline, or lucky?

Trials of one strategy differ by more than their steps do, since the machine drifts. So finalists take turns (A/B/C/D,
A/B/C/D, ...), and the two that matter are compared round by round, where drift hits both alike. With b_r and c_r the
median step seconds of baseline and candidate in round r of R,

    log speedup = 1/R sum_r log(b_r / c_r)

Its standard error is estimated by a hierarchical bootstrap: rounds are drawn with replacement, the same for both, and
steps within each drawn round, for each apart (Davison, Hinkley: "Bootstrap Methods and their Application", 1997,
section 3.8). Drawing rounds gives an error too small by sqrt((R-1)/R), which is put right, and Student's t with R-1
degrees of freedom accounts for R being small.

Where the finals promise a gain and cannot prove it, the two take turns again, and the verdict is by these alone: they
were not chosen by them, so no luck of the best of several is in them. Two looks at 1 - 0.05 / 2 each: all intervals
said hold together with 95 % (Bonferroni).
"""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from scipy.stats import t as student

from autosync.errors import TrialError
from autosync.spec import RuntimeRecord, Strategy
from autosync.spec.node import LEAST_FIGURE, MOST_FIGURE

T = TypeVar("T")
Floats = npt.NDArray[np.float64]
Steps = Sequence[Sequence[float]]
"""Step seconds of one strategy, by round."""

CONFIDENCE = 0.95
RESAMPLES = 2000


@final
@dataclass(frozen=True)
class OverDefault:
    """How many times as fast the winner is as the fastest of what frameworks do by default, paired by round."""

    digest: str
    label: str
    speedup: float
    interval: tuple[float, float]
    rounds: int


@final
@dataclass(frozen=True)
class Verdict:
    """What the re-measurement says.

    `speedup` is the best baseline's step time over the best candidate's, paired by round (over 1: the candidate is
    faster), `interval` its 95 % interval. `winner` is the candidate only if that interval lies above 1
    (`beyond_noise`), else the baseline. `rounds` were compared; `note` states a reservation, or is empty.
    `over_default` is None where no default was timed with the winner, or one is the winner.
    """

    winner: Strategy
    winner_label: str
    baseline: Strategy
    baseline_label: str
    candidate: Strategy | None
    candidate_label: str | None
    speedup: float
    interval: tuple[float, float]
    beyond_noise: bool
    rounds: int
    note: str
    over_default: OverDefault | None = None

    @property
    def is_promising(self) -> bool:
        """Whether the candidate was faster by what may be noise, so that more rounds may tell."""
        return self.candidate is not None and self.speedup > 1 and not self.beyond_noise


def interleaved(contenders: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Pairs (round, contender) in the order to run: A/B/C/D/A/B/..."""
    return ((turn, contender) for turn in range(rounds) for contender in contenders)


def judge(
    rounds: Sequence[Sequence[RuntimeRecord]],
    baselines: Collection[str],
    generator: np.random.Generator,
    looks: int = 1,
) -> Verdict:
    """The verdict from each round's records; `baselines` are digests, all other strategies are candidates.

    A candidate counts if it succeeded in more than half of the rounds, a baseline if it did in at least one. A
    strategy's median is over the steps of all its rounds. The best of several candidates is somewhat lucky, so its
    interval is widened as Bonferroni has it, and as much where the verdict is one of several `looks`. Raises
    `TrialError` when no baseline was timed.
    """
    runs = _by_strategy(rounds)
    medians = {name: statistics.median(_all_steps(records)) for name, records in runs.items()}
    measured_baselines = [name for name in runs if name in baselines]
    if not measured_baselines:
        raise TrialError("A verdict needs a baseline that was re-measured, but every one failed; see their records.")
    candidates = [name for name, records in runs.items() if name not in baselines and 2 * len(records) > len(rounds)]
    baseline = min(measured_baselines, key=medians.__getitem__)
    if not candidates:
        asked = any(each.strategy.digest not in baselines for turn in rounds for each in turn)
        note = (
            "No candidate was timed in more than half of the rounds."
            if asked
            else "None ran all its steps in the search, so none was measured again."
        )
        return _verdict(runs[baseline], None, 1.0, (1.0, 1.0), note)
    candidate = min(candidates, key=medians.__getitem__)
    shared = sorted(set(runs[baseline]) & set(runs[candidate]))
    if len(shared) < len(rounds):
        note = f"Both were timed in {len(shared)} of {len(rounds)} rounds."
    elif len(shared) == 1:
        note = "One round only: the interval knows the noise between steps, not between trials."
    else:
        note = ""
    slow, fast = ([runs[name][turn].step_seconds for turn in shared] for name in (baseline, candidate))
    interval = speedup_interval(slow, fast, generator, compared=looks * len(candidates))
    return _verdict(runs[baseline], runs[candidate], speedup(slow, fast), interval, note)


def with_default(
    verdict: Verdict,
    rounds: Sequence[Sequence[RuntimeRecord]],
    defaults: Collection[str],
    generator: np.random.Generator,
    looks: int = 1,
) -> Verdict:
    """The verdict with its winner held against the fastest of `defaults`, which are digests, in the same `rounds`.

    Where that is the best baseline, the figures are the verdict's own. Else the interval is wide enough for the best of
    all others that were timed, which the winner may be.
    """
    if verdict.baseline.digest in defaults and verdict.beyond_noise:
        own = OverDefault(
            verdict.baseline.digest, verdict.baseline_label, verdict.speedup, verdict.interval, verdict.rounds
        )
        return replace(verdict, over_default=own)
    runs = _by_strategy(rounds)
    winner = runs.get(verdict.winner.digest, {})
    measured = {name: records for name, records in runs.items() if name in defaults and set(records) & set(winner)}
    if not measured or verdict.winner.digest in defaults:
        return verdict
    name = min(measured, key=lambda each: statistics.median(_all_steps(measured[each])))
    shared = sorted(set(measured[name]) & set(winner))
    slow, fast = ([records[turn].step_seconds for turn in shared] for records in (measured[name], winner))
    interval = speedup_interval(slow, fast, generator, compared=looks * max(1, len(runs) - len(measured)))
    label = measured[name][shared[0]].label
    return replace(verdict, over_default=OverDefault(name, label, speedup(slow, fast), interval, len(shared)))


def speedup_interval(
    baseline: Steps, candidate: Steps, generator: np.random.Generator, compared: int = 1
) -> tuple[float, float]:
    """95 % interval of the speedup of `candidate` over `baseline`, as one of `compared` comparisons; see the module's
    head.

    It ends where figures do: of two rounds that are far apart, Student's t makes it wider than any file may say.
    """
    tail = 1 - (1 - CONFIDENCE) / (2 * compared)
    rounds = len(baseline)
    turns = generator.integers(0, rounds, (RESAMPLES, rounds))
    logs = _log_medians(baseline, turns, generator) - _log_medians(candidate, turns, generator)
    error = float(logs.mean(axis=1).std(ddof=1))
    if rounds > 1:
        margin = float(student.ppf(tail, rounds - 1)) * error * math.sqrt(rounds / (rounds - 1))
    else:
        margin = float(norm.ppf(tail)) * error
    centre = math.log(speedup(baseline, candidate))
    with np.errstate(over="ignore"):
        low, high = np.clip(np.exp([centre - margin, centre + margin]), LEAST_FIGURE, MOST_FIGURE)
    return float(low), float(high)


def _log_medians(steps: Steps, turns: npt.NDArray[np.int64], generator: np.random.Generator) -> Floats:
    """Log of the median of resampled steps of each drawn round, float64 (resamples, rounds), the shape of `turns`."""
    longest = max(len(each) for each in steps)
    padded = np.array([[*each, *[0.0] * (longest - len(each))] for each in steps])
    lengths = np.array([len(each) for each in steps])[turns][..., None]
    drawn = (generator.random((*turns.shape, longest)) * lengths).astype(np.int64)
    return np.asarray(np.log(np.median(padded[turns[..., None], drawn], axis=-1)))


def speedup(baseline: Steps, candidate: Steps) -> float:
    """How many times as fast `candidate` is, by the median steps of each round; see the module's head."""
    pairs = zip(baseline, candidate, strict=True)
    return statistics.geometric_mean(statistics.median(slow) / statistics.median(fast) for slow, fast in pairs)


def _by_strategy(rounds: Sequence[Sequence[RuntimeRecord]]) -> dict[str, dict[int, RuntimeRecord]]:
    """Records that are ok, by strategy's digest and round; where a round has several of a strategy, the first."""
    runs: dict[str, dict[int, RuntimeRecord]] = {}
    for turn, records in enumerate(rounds):
        for record in records:
            if record.outcome == "ok":
                runs.setdefault(record.strategy.digest, {}).setdefault(turn, record)
    return runs


def _all_steps(records: Mapping[int, RuntimeRecord]) -> list[float]:
    return [seconds for record in records.values() for seconds in record.step_seconds]


def _verdict(
    baseline: Mapping[int, RuntimeRecord],
    candidate: Mapping[int, RuntimeRecord] | None,
    speedup: float,
    interval: tuple[float, float],
    note: str,
) -> Verdict:
    usual = next(iter(baseline.values()))
    found = next(iter(candidate.values())) if candidate else None
    beyond_noise = interval[0] > 1.0
    winner = found if found and beyond_noise else usual
    return Verdict(
        winner=winner.strategy,
        winner_label=winner.label,
        baseline=usual.strategy,
        baseline_label=usual.label,
        candidate=found.strategy if found else None,
        candidate_label=found.label if found else None,
        speedup=speedup,
        interval=interval,
        beyond_noise=beyond_noise,
        rounds=len(set(baseline) & set(candidate)) if candidate else len(baseline),
        note=note,
    )
