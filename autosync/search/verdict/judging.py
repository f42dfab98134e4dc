"""The verdict of the finals: is the best candidate faster than the best baseline, or was it lucky?

Trials of one strategy differ by more than their steps do, because the machine drifts. So finalists run in turn
(A/B/C/D, A/B/C/D, ...), and two finalists are compared by the ratios of their medians in the rounds that both ran
(`autosync.stats.paired`).

The best of k candidates is partly lucky, so every interval may err with a k-th of the stated error (Bonferroni). A
candidate counts towards k even if it was dropped or failed. Finals that are judged several times divide the error over
these looks (`autosync.search.verdict.looks`).
"""

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

import numpy as np

from autosync.errors import TrialError
from autosync.numeric import FloatArray
from autosync.spec import RuntimeRecord, Strategy
from autosync.stats.paired import ERROR, interval_of, log_ratios, pool_noise, speedup_of

T = TypeVar("T")
Medians = Mapping[str, Mapping[int, float]]
"""Median seconds per step, by the strategy's digest and the round's number."""


@final
@dataclass(frozen=True)
class OverDefault:
    """Speed-up of the winner over the faster of the frameworks' default bucket sizes, paired by round."""

    digest: str
    """The digest of that default strategy."""
    label: str
    speedup: float
    interval: tuple[float, float] | None
    """The 95 % interval of `speedup`; None for too few rounds."""
    rounds: int
    """The number of rounds that both ran."""


@final
@dataclass(frozen=True)
class Verdict:
    """The best candidate compared with the best baseline."""

    winner: Strategy
    """The candidate if `beyond_noise`, else the baseline."""
    winner_label: str
    baseline: Strategy
    baseline_label: str
    candidate: Strategy | None
    """The best candidate; None if none could be compared."""
    speedup: float
    """The baseline's step time over the candidate's, paired by round (over 1: the candidate is faster)."""
    interval: tuple[float, float] | None
    """The 95 % interval of `speedup`; None for too few rounds."""
    beyond_noise: bool
    """Whether `interval` lies above 1."""
    rounds: int
    """The number of rounds compared."""
    note: str
    """A reservation about the verdict, or empty."""
    over_default: OverDefault | None = None
    """None if no default strategy was timed together with the winner, or if a default strategy is the winner."""

    @property
    def is_promising(self) -> bool:
        """Whether the candidate was faster, but perhaps only by noise, so that more rounds may decide."""
        return self.candidate is not None and self.speedup > 1 and not self.beyond_noise

    @property
    def is_lost(self) -> bool:
        """Whether the best candidate is slower than the best baseline beyond the noise, or none could be compared."""
        return self.candidate is None or (self.interval is not None and self.interval[1] < 1)


def interleave(contenders: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Return pairs (round, contender) in the order to run: A/B/C/D/A/B/..."""
    return ((turn, contender) for turn in range(rounds) for contender in contenders)


def judge(rounds: Sequence[Sequence[RuntimeRecord]], baselines: Collection[str], error: float = ERROR) -> Verdict:
    """Return the verdict from each round's records. `baselines` are digests; all other strategies are candidates.

    A candidate counts if it succeeded in more than half of the rounds that it took part in, a baseline if it succeeded
    in at least one. `error` is the chance that the interval of any candidate excludes its true speed-up. Raises
    `TrialError` if no baseline was timed.
    """
    runs = _by_strategy(rounds)
    medians = _medians(runs)
    measured_baselines = [name for name in runs if name in baselines]
    if not measured_baselines:
        raise TrialError(
            "A verdict needs a re-measured baseline, but every baseline failed; see the records of the baselines."
        )
    attempts = _attempts(rounds)
    searched = [name for name in attempts if name not in baselines]
    candidates = [name for name in searched if 2 * len(runs.get(name, ())) > attempts[name]]
    baseline = _fastest(measured_baselines, medians)
    candidates = [name for name in candidates if medians[name].keys() & medians[baseline].keys()]
    if not candidates:
        note = (
            "No candidate was timed in more than half of the rounds."
            if searched
            else "No candidate finished all steps in the search, so none was re-measured."
        )
        return _verdict(runs[baseline], None, 1.0, (1.0, 1.0), note)
    candidate = _fastest(candidates, medians)
    shared = sorted(runs[baseline].keys() & runs[candidate].keys())
    logs = _log_ratios(medians, baseline, candidate)
    interval = interval_of(logs, error / len(searched), _noise(medians, shared))
    rounds_run = min(attempts[baseline], attempts[candidate])
    note = f"Both were timed in {len(shared)} of {rounds_run} rounds." if len(shared) < rounds_run else ""
    return _verdict(runs[baseline], runs[candidate], speedup_of(logs), interval, note)


def losers(
    rounds: Sequence[Sequence[RuntimeRecord]], names: Collection[str], error: float, compared: int
) -> frozenset[str]:
    """Return those of `names` that are slower than another one beyond doubt, at `error` divided by `compared`
    comparisons.
    """
    medians = _medians(_by_strategy(rounds))
    timed = [name for name in names if name in medians]

    def loses(name: str, rival: str) -> bool:
        shared = sorted(medians[name].keys() & medians[rival].keys())
        logs = _log_ratios(medians, rival, name)
        interval = interval_of(logs, error / compared, _noise(medians, shared)) if shared else None
        return interval is not None and interval[1] < 1

    return frozenset(name for name in timed if any(loses(name, rival) for rival in timed if rival != name))


def with_default(
    verdict: Verdict, rounds: Sequence[Sequence[RuntimeRecord]], defaults: Collection[str], error: float = ERROR
) -> Verdict:
    """Return the verdict with its winner compared with the fastest of `defaults` (digests) in the same `rounds`.

    If that default is the best baseline, the figures are the verdict's own. Otherwise the interval is wide enough for
    the best of all other timed strategies, because the winner may be that one.
    """
    if verdict.baseline.digest in defaults and verdict.beyond_noise:
        same_figures = OverDefault(
            verdict.baseline.digest, verdict.baseline_label, verdict.speedup, verdict.interval, verdict.rounds
        )
        return replace(verdict, over_default=same_figures)
    runs = _by_strategy(rounds)
    medians, winner = _medians(runs), verdict.winner.digest
    measured = [name for name in runs if name in defaults and runs[name].keys() & runs.get(winner, {}).keys()]
    if not measured or winner in defaults:
        return verdict
    name = _fastest(measured, medians)
    logs = _log_ratios(medians, name, winner)
    interval = interval_of(logs, error / max(1, len(runs) - len(measured)))
    label = next(iter(runs[name].values())).label
    return replace(verdict, over_default=OverDefault(name, label, speedup_of(logs), interval, len(logs)))


def _by_strategy(rounds: Sequence[Sequence[RuntimeRecord]]) -> dict[str, dict[int, RuntimeRecord]]:
    """Return the successful records by the strategy's digest and the round; the first record if a round has several."""
    runs: dict[str, dict[int, RuntimeRecord]] = {}
    for turn, records in enumerate(rounds):
        for record in records:
            if record.outcome == "ok":
                runs.setdefault(record.strategy.digest, {}).setdefault(turn, record)
    return runs


def _attempts(rounds: Sequence[Sequence[RuntimeRecord]]) -> dict[str, int]:
    """Return the number of rounds that each strategy was run in, failed runs included, by digest."""
    attempts: dict[str, int] = {}
    for records in rounds:
        for name in dict.fromkeys(record.strategy.digest for record in records):
            attempts[name] = attempts.get(name, 0) + 1
    return attempts


def _medians(runs: Mapping[str, Mapping[int, RuntimeRecord]]) -> Medians:
    return {
        name: {turn: statistics.median(record.step_seconds) for turn, record in records.items()}
        for name, records in runs.items()
    }


def _log_ratios(medians: Medians, slow: str, fast: str) -> FloatArray:
    """Return the log ratios of the two strategies in the rounds that both ran, float64 (rounds,)."""
    shared = sorted(medians[slow].keys() & medians[fast].keys())
    return log_ratios([medians[slow][turn] for turn in shared], [medians[fast][turn] for turn in shared])


def _noise(medians: Medians, shared: Sequence[int]) -> float:
    """Return the noise pooled over all strategies that ran in all of the `shared` rounds."""
    present = [runs for runs in medians.values() if all(turn in runs for turn in shared)]
    return pool_noise(np.array([[runs[turn] for turn in shared] for runs in present]))


def _fastest(names: Sequence[str], medians: Medians) -> str:
    """Return the strategy with the fewest faster rivals, compared in the rounds that both ran; of several, the first.

    Medians over different rounds would also differ by the machine's drift.
    """

    def losses(name: str) -> tuple[int, float]:
        rivals = [rival for rival in names if rival != name and medians[rival].keys() & medians[name].keys()]
        faster = sum(speedup_of(_log_ratios(medians, name, rival)) > 1 for rival in rivals)
        return faster, statistics.median(medians[name].values())

    return min(names, key=losses)


def _verdict(
    baseline: Mapping[int, RuntimeRecord],
    candidate: Mapping[int, RuntimeRecord] | None,
    speedup: float,
    interval: tuple[float, float] | None,
    note: str,
) -> Verdict:
    of_baseline = next(iter(baseline.values()))
    of_candidate = next(iter(candidate.values())) if candidate else None
    beyond_noise = interval is not None and interval[0] > 1.0
    winner = of_candidate if of_candidate and beyond_noise else of_baseline
    return Verdict(
        winner=winner.strategy,
        winner_label=winner.label,
        baseline=of_baseline.strategy,
        baseline_label=of_baseline.label,
        candidate=of_candidate.strategy if of_candidate else None,
        speedup=speedup,
        interval=interval,
        beyond_noise=beyond_noise,
        rounds=len(baseline.keys() & candidate.keys()) if candidate else len(baseline),
        note=note,
    )
