"""The time budget of a run: how much of it the search and the finals get, and how many steps a trial may have.

The search gets at least `SEARCH_SHARE` of the time that is left after the first baselines. The finals get their
expected seconds, if the rest allows them. No trial begins that is not expected to end in time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from autosync.search.protocol import FIRST_BASELINES
from autosync.spec import RuntimeRecord, TimingProtocol
from autosync.stats.paired import LEAST_ROUNDS
from autosync.tune.finalists import CANDIDATES, fastest_of, finalists, seconds_of_turn

SEARCH_SHARE = 0.5
"""The least share of the time after the first baselines that is for candidates."""

TRIAL_SHARE, FEWEST_STEPS = 1 / 40, 5
"""The share of a time budget that the steps of one trial may take, and the fewest timed steps it may be cut to."""

MORE_ROUNDS = 1.5
"""The rounds of the best two that time is kept for, as a multiple of the rounds asked for: a verdict may need more."""

LATEST = 10
"""Latest trials whose seconds say how long another one takes."""


def affordable(protocol: TimingProtocol, step_seconds: float | None, budget_seconds: float | None) -> TimingProtocol:
    """The protocol with so few steps of `step_seconds` that they take no more than a trial's share of the budget."""
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
    """The part of the time budget that a running search keeps back for `rounds` of finals and `counterfactuals`."""

    rounds: int
    counterfactuals: int = 0
    lanes: int = 1

    def is_out_of_time(self, more: int, records: Sequence[RuntimeRecord], seconds_left: float) -> bool:
        """Whether `more` trials, or one if that is 0, would not end before the finals have to begin."""
        if seconds_left == math.inf:
            return False
        searched = sum(record.total_seconds for record in records[FIRST_BASELINES:]) / self.lanes
        finals = min(self.finals_seconds(records), (1 - SEARCH_SHARE) * (seconds_left + searched))
        in_turn = math.ceil(max(1, more) / self.lanes)
        return finals + seconds_of_trials(in_turn, records) >= seconds_left

    def finals_seconds(self, records: Sequence[RuntimeRecord]) -> float:
        """Seconds that the finals would take among the strategies timed so far, with `CANDIDATES` candidates.

        Missing candidates count as long as the fastest strategy. Finalists that lose leave at the first look, which
        leaves a candidate and a baseline. Counterfactuals take turns with the winner after that.
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
    """Seconds of `count` more trials: one may be as long as the longest of the latest, others as long as their mean."""
    seconds = [record.total_seconds for record in records[-LATEST:] if record.timed]
    return max(seconds) + (count - 1) * sum(seconds) / len(seconds) if count and seconds else 0.0


def fitting(chosen: Sequence[RuntimeRecord], rounds: int, seconds: float) -> list[RuntimeRecord]:
    """The finalists for whose first rounds there is time, in the order given.

    While there is none for the first look, and after it for the rounds of two up to `rounds`, these are left out: the
    third candidate and later ones, baselines close to the best one, the default of frameworks, the second candidate.
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
