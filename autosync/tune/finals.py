"""The finals: the best few and the best baseline, timed again in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from autosync.search import interleaved
from autosync.spec import RuntimeRecord, TimingProtocol
from trials.request import TrialRequest

__all__ = ["CANDIDATES", "finalists", "remeasure", "seconds_for_finals"]

CANDIDATES = 3

ATTEMPTS = 4
"""How often a finalist's turn is run that is lost with a worker or a node."""


def finalists(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """The best candidates and the best baseline among complete trials, fastest first."""
    complete = sorted(
        (each for each in records if each.outcome == "ok"), key=lambda each: each.median_seconds or math.inf
    )
    candidates = [each for each in complete if each.purpose == "search"][:CANDIDATES]
    baseline = [each for each in complete if each.purpose == "baseline"][:1]
    return sorted(candidates + baseline, key=lambda each: each.median_seconds or math.inf)


def remeasure(
    chosen: Sequence[RuntimeRecord],
    rounds: int,
    run_trial: Callable[[TrialRequest], RuntimeRecord],
    keep: Callable[[RuntimeRecord], object],
) -> list[list[RuntimeRecord]]:
    """Time the finalists again, `rounds` times in turns, each to its end; the records by round."""
    turns: list[list[RuntimeRecord]] = [[] for _ in range(rounds)]
    for turn, finalist in interleaved(chosen, rounds):
        protocol = _shorter(finalist.protocol)
        request = TrialRequest(
            strategy=finalist.strategy,
            protocol=protocol,
            purpose="remeasure",
            label=finalist.label,
            run=finalist.run,
            seed=finalist.seed,
            predicted_seconds=finalist.predicted_seconds,
        )
        for _ in range(ATTEMPTS):
            record = run_trial(request)
            keep(record)
            if record.outcome != "lost":
                break
        turns[turn].append(record)
    return turns


def _shorter(protocol: TimingProtocol) -> TimingProtocol:
    """Half the steps a turn: more turns tell more about drift between trials than more steps in each."""
    return replace(
        protocol,
        warmup_steps=math.ceil(protocol.warmup_steps / 2),
        timed_steps=math.ceil(protocol.timed_steps / 2),
    )


def seconds_for_finals(records: Sequence[RuntimeRecord], rounds: int) -> float:
    """What the finals would take if held now, so that a time budget can leave room for them."""
    return rounds * sum((each.setup_seconds + each.total_seconds) / 2 for each in finalists(records))
