"""Divides the time budget of a run between the search and the finals, and limits the steps of a trial.

The search gets at least `SEARCH_SHARE` of the time left after the first baselines. The finals get their expected
seconds, as far as the rest allows. A trial begins only if it is expected to end in time.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

from autosync.search.protocol import FIRST_BASELINES
from autosync.spec import RuntimeRecord, TimingProtocol
from autosync.stats.paired import LEAST_ROUNDS
from autosync.tune.finalists import CANDIDATES, fastest_of, finalists, seconds_of_turn

SEARCH_SHARE = 0.5
"""The least share of the time after the first baselines that is reserved for candidates."""

TRIAL_SHARE, FEWEST_STEPS = 1 / 40, 5
"""The largest share of a time budget for the steps of one trial, and the fewest timed steps to which a trial is cut."""

FEWEST_WARMUPS = 2
"""The fewest warm-up steps that judge a strategy fairly: DistributedDataParallel with `static_graph` makes its final
buckets in its third step, and the first step is no warm-up step."""

MORE_ROUNDS = 1.5
"""Rounds of the best two for which time is reserved, as a multiple of the requested rounds. A verdict may need more."""

LATEST = 10
"""The number of latest trials whose durations predict the next trial's."""


def too_few_in_words(protocol: TimingProtocol) -> Iterator[str]:
    """Sentences on a protocol with too few steps to judge a strategy."""
    if protocol.timed_steps < FEWEST_STEPS:
        yield (
            f"--steps {protocol.timed_steps} is too small to judge a strategy: the median of so few steps is mostly "
            f"noise, and slow trials are not stopped early; use --steps {FEWEST_STEPS} or more."
        )
    if protocol.warmup_steps < FEWEST_WARMUPS:
        yield (
            f"--warmup {protocol.warmup_steps} is too small to judge a strategy: its first steps are slower, for "
            "example while DistributedDataParallel makes its final buckets; "
            f"use --warmup {FEWEST_WARMUPS} or more."
        )


def affordable(protocol: TimingProtocol, step_seconds: float | None, budget_seconds: float | None) -> TimingProtocol:
    """Return the protocol with so few steps that steps of `step_seconds` take at most a trial's share of the budget."""
    if budget_seconds is None or not step_seconds:
        return protocol
    every = protocol.warmup_steps + protocol.timed_steps
    share = TRIAL_SHARE * budget_seconds / step_seconds / every
    if share >= 1:
        return protocol
    warmup = min(protocol.warmup_steps, max(1, math.floor(share * protocol.warmup_steps)))
    timed = min(protocol.timed_steps, max(FEWEST_STEPS, math.floor(share * every) - warmup))
    return replace(protocol, warmup_steps=warmup, timed_steps=timed, check_after=min(protocol.check_after, timed))


@final
@dataclass(frozen=True)
class Reserve:
    """The part of the time budget that a running search reserves for `rounds` rounds of finals and for
    `counterfactuals`.
    """

    rounds: int
    counterfactuals: int = 0
    lanes: int = 1

    def is_out_of_time(self, more: int, records: Sequence[RuntimeRecord], seconds_left: float) -> bool:
        """Whether `more` trials (one trial if 0) would end only after the finals have to begin."""
        if seconds_left == math.inf:
            return False
        searched = sum(record.total_seconds for record in records[FIRST_BASELINES:]) / self.lanes
        finals = min(self.finals_seconds(records), (1 - SEARCH_SHARE) * (seconds_left + searched))
        in_turn = math.ceil(max(1, more) / self.lanes)
        return finals + seconds_of_trials(in_turn, records) >= seconds_left

    def finals_seconds(self, records: Sequence[RuntimeRecord]) -> float:
        """Seconds that the finals would take among the strategies timed so far, with `CANDIDATES` candidates.

        A missing candidate counts with the duration of the fastest strategy. All but the best candidate and the best
        baseline are expected to leave at the first look. Counterfactuals take turns with the winner afterwards.
        """
        chosen = finalists(records)
        if not chosen:
            return 0.0
        fastest = fastest_of(chosen)
        turns = [seconds_of_turn(record, fastest) for record in chosen]
        missing = max(0, CANDIDATES - sum(record.purpose == "search" for record in chosen))
        first = min(LEAST_ROUNDS, self.rounds)
        pair = (math.ceil(MORE_ROUNDS * self.rounds) - first) * 2 * min(turns)
        reverted = self.rounds * (1 + self.counterfactuals) * turns[0] if self.counterfactuals else 0.0
        return first * (sum(turns) + missing * min(turns)) + pair + reverted


def seconds_of_trials(count: int, records: Sequence[RuntimeRecord]) -> float:
    """Seconds of `count` more trials: the longest of the latest trials for one, and their mean for each other trial."""
    seconds = [record.total_seconds for record in records[-LATEST:] if record.timed]
    return max(seconds) + (count - 1) * sum(seconds) / len(seconds) if count and seconds else 0.0


def fitting(chosen: Sequence[RuntimeRecord], rounds: int, seconds: float) -> list[RuntimeRecord]:
    """The finalists for which the time suffices, in the given order.

    The time must suffice for all finalists up to the first look, and then for two of them up to `rounds`. Until it
    does, finalists are left out in this order: the third candidate and later ones, baselines close to the best one, the
    framework default, the second candidate.
    """
    kept = list(chosen)
    for record in _dispensable(chosen):
        if _seconds_of_rounds(kept, rounds) <= seconds:
            break
        kept.remove(record)
    return kept


def _dispensable(chosen: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """Finalists except the fastest candidate and baseline, in the order in which they may be left out."""
    searched = [record for record in chosen if record.purpose == "search"]
    baselines = [record for record in chosen if record.purpose == "baseline"]
    close, default = baselines[1:-1], baselines[1:][-1:]
    return [*reversed(searched[2:]), *reversed(close), *default, *searched[1:2]]


def _seconds_of_rounds(chosen: Sequence[RuntimeRecord], rounds: int) -> float:
    fastest = fastest_of(chosen)
    turns = [seconds_of_turn(record, fastest) for record in chosen]
    first = min(LEAST_ROUNDS, rounds)
    return first * sum(turns) + (rounds - first) * 2 * min(turns, default=0.0)
