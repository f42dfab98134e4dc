"""A race in words: one line a run, and sentences on the outcome."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosync.race.candidates import PLAIN_NAME
from autosync.race.plan import Race
from autosync.race.verdict import RaceVerdict
from autosync.spec import TargetRecord
from autosync.stats.estimate import Estimate
from autosync.words.quantities import count_of


def run_in_words(number: int, record: TargetRecord) -> str:
    """Return the outcome of a run as a line."""
    head = f"{number:3d}  {record.label:<36} seed {record.seed}  "
    if record.outcome == "reached":
        return f"{head}{record.seconds:8.2f} s{mark(record)} in {count_of(record.steps, 'step')}"
    return f"{head}{record.outcome.replace('_', ' ')}: {record.reason}"


def mark(record: TargetRecord) -> str:
    """Return the note behind seconds that are not of real passes, such as " (paced)"."""
    return "" if record.cluster.time == "real" else f" ({record.cluster.time})"


def outcome_lines(race: Race, verdict: RaceVerdict) -> Iterator[str]:
    """Return sentences on the returned strategy and on the runs that count or failed."""
    over = verdict.over(race.times, PLAIN_NAME)
    if verdict.proven:
        yield f"First: {verdict.winner.name}, {ratio_in_words(over)} times as fast as plain training to the target."
    elif verdict.winner.name == PLAIN_NAME:
        yield "No discipline was faster than plain training. The plain strategy is returned."
    else:
        yield (
            f"No discipline is surely faster than plain training: the best, {verdict.winner.name}, is "
            f"{ratio_in_words(over)} times as fast. The plain strategy is returned."
        )
    seeds = ", ".join(map(str, verdict.judged))
    yield f"Intervals are over resampled paired seeds {seeds}."
    yield "A run that was given up counts with its projected time."
    for name, reason in race.times.faults.items():
        yield f"Failed: {name}: {reason}"


def ratio_in_words(ratio: Estimate) -> str:
    if math.isnan(ratio.value):
        return "an unknown number of"
    if not math.isfinite(ratio.high):
        return f"{ratio.value:.2f} [one seed]"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
