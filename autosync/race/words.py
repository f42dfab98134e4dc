"""A race in words: a line for every run, and the table of the outcome."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosync.race.candidates import PLAIN_NAME
from autosync.race.plan import Planned, Race
from autosync.race.verdict import Verdict
from autosync.spec import TargetRecord
from autosync.stats.estimate import Estimate
from autosync.words.quantities import counted


def run_in_words(number: int, planned: Planned, record: TargetRecord) -> str:
    """What came of a run."""
    head = f"{number:3d}  {planned.candidate.name:<36} seed {planned.seed}  "
    if record.outcome == "reached":
        return f"{head}{record.seconds:8.2f} s{mark(record)} in {counted(record.steps, 'step')}"
    return f"{head}{record.outcome.replace('_', ' ')}: {record.reason}"


def mark(record: TargetRecord) -> str:
    """What stands behind seconds that are not of real passes."""
    return "" if record.cluster.time == "real" else f" ({record.cluster.time})"


def outcome_lines(race: Race, found: Verdict) -> Iterator[str]:
    """Sentences on the strategy that is returned, and on the runs that count or failed."""
    over = found.over(race.times, PLAIN_NAME)
    if found.proven:
        yield f"First: {found.winner.name}, {ratio_in_words(over)} times as fast as plain training to the target."
    elif found.winner.name == PLAIN_NAME:
        yield "No discipline was faster than plain training. The plain strategy is returned."
    else:
        yield (
            f"No discipline is surely faster than plain training: the best, {found.winner.name}, is "
            f"{ratio_in_words(over)} times as fast. The plain strategy is returned."
        )
    seeds = ", ".join(map(str, found.judged))
    yield f"Intervals are over the paired seeds {seeds}, resampled."
    yield "A run that was given up counts as long as it was about to take."
    for name, reason in race.times.faults.items():
        yield f"Failed: {name}: {reason}"


def ratio_in_words(ratio: Estimate) -> str:
    if math.isnan(ratio.value):
        return "an unknown number of"
    if not math.isfinite(ratio.high):
        return f"{ratio.value:.2f} [one seed]"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
