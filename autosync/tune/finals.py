"""The finals: the best few and the best baselines, timed again in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from autosync.search import interleaved
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol
from autosync.stats.accuracy import strategy_medians
from trials.request import TrialRequest

__all__ = ["CANDIDATES", "again", "finalists", "remeasure", "seconds_for", "seconds_of_turn", "take_turns"]

CANDIDATES = 3

BASELINES, CLOSE = 3, 1.05
"""The most baselines that are measured again, and how many times as slow as the best one they may be: that one may have
been lucky, and is what the candidates are held against."""

ATTEMPTS = 4
"""The most attempts at a finalist's turn, which is run again when it is lost with a worker or a node."""


def finalists(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """The best candidates, and the best baseline with those close to it, of complete trials; fastest first.

    Each is its first record; how fast it is, the median over all of its records.
    """
    medians = strategy_medians(records)

    def seconds(record: RuntimeRecord) -> float:
        return medians[record.strategy.digest]

    first: dict[str, RuntimeRecord] = {}
    for record in records:
        if record.outcome == "ok" and record.purpose != "remeasure":
            first.setdefault(record.strategy.digest, record)
    ordered = sorted(first.values(), key=seconds)
    candidates = [each for each in ordered if each.purpose == "search"][:CANDIDATES]
    baselines = [each for each in ordered if each.purpose == "baseline"][:BASELINES]
    close = [each for each in baselines if seconds(each) <= CLOSE * seconds(baselines[0])]
    return sorted(candidates + close, key=seconds)


def remeasure(
    chosen: Sequence[RuntimeRecord],
    rounds: int,
    run_trial: Callable[[TrialRequest], RuntimeRecord],
    keep: Callable[[RuntimeRecord], object],
    out_of_time: Callable[[], bool] = lambda: False,
) -> list[list[RuntimeRecord]]:
    """Time the finalists again, `rounds` times in turns, each to its end; the records by round. See `take_turns`."""
    return take_turns([again(each, each.label) for each in chosen], rounds, run_trial, keep, out_of_time)


def again(record: RuntimeRecord, label: str, strategy: Strategy | None = None) -> TrialRequest:
    """The request that times `strategy`, by default the record's own, for a turn under the record's conditions."""
    return TrialRequest(
        strategy=strategy or record.strategy,
        protocol=_shorter(record.protocol),
        purpose="remeasure",
        label=label,
        run=record.run,
        seed=record.seed,
        predicted_seconds=record.predicted_seconds if strategy is None else None,
    )


def take_turns(
    requests: Sequence[TrialRequest],
    rounds: int,
    run_trial: Callable[[TrialRequest], RuntimeRecord],
    keep: Callable[[RuntimeRecord], object],
    out_of_time: Callable[[], bool] = lambda: False,
) -> list[list[RuntimeRecord]]:
    """Run the requests `rounds` times in turns, and no round that begins `out_of_time`; return the records by round."""
    turns: list[list[RuntimeRecord]] = []
    for turn, request in interleaved(requests, rounds):
        if turn == len(turns):
            if out_of_time():
                break
            turns.append([])
        for _ in range(ATTEMPTS):
            record = run_trial(request)
            keep(record)
            if record.outcome != "lost":
                break
        turns[turn].append(record)
    return turns


def _shorter(protocol: TimingProtocol) -> TimingProtocol:
    """The protocol with half the steps: more turns tell more about drift between trials than more steps in each."""
    return replace(
        protocol,
        warmup_steps=math.ceil(protocol.warmup_steps / 2),
        timed_steps=math.ceil(protocol.timed_steps / 2),
    )


def seconds_for(trials: int, records: Sequence[RuntimeRecord], rounds: int, counterfactuals: int = 0) -> float:
    """Seconds that so many more `trials` and then the finals would take, so that a time budget can leave room for them.

    A trial takes what the longest of `records` that was timed did. The finals are taken to be held among those there
    are; so many `counterfactuals` are timed after them in turns with the winner, and last as long as it does.
    """
    turns = [seconds_of_turn(each) for each in finalists(records)]
    finals = rounds * (sum(turns) + ((1 + counterfactuals) * turns[0] if counterfactuals and turns else 0.0))
    return finals + trials * max((each.total_seconds for each in records if each.timed), default=0.0)


def seconds_of_turn(record: RuntimeRecord) -> float:
    """Seconds that a turn of a strategy takes, by its trial: a turn has half the steps."""
    return (record.setup_seconds + record.total_seconds) / 2
