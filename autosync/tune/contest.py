"""Holding the finals: all finalists in turns; where these promise a gain and do not prove it, the best two again."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from autosync.errors import NodesLostError, TrialError
from autosync.search import Verdict, judge
from autosync.spec import RuntimeRecord
from autosync.tune.finals import remeasure, seconds_of_turn
from autosync.tune.job import Job
from autosync.words.quantities import counted

__all__ = ["TIMES_MORE", "hold_finals"]

Rounds = list[list[RuntimeRecord]]

LOOKS = 2
"""The most times that the finals are judged before there is a verdict."""

TIMES_MORE = 2
"""Times as many rounds as the finals that the best two take again: two turns a round, where finals have up to six."""


def hold_finals(job: Job, chosen: Sequence[RuntimeRecord], baselines: Collection[str]) -> tuple[Rounds, Verdict]:
    """All rounds, and the verdict: by the rounds of all finalists if these decide, else by those of the best two alone.

    `chosen` are the finalists' trials, `baselines` the digests of baselines. Raises `TrialError` when no
    trial can be run any more, or no baseline succeeded.
    """
    options = job.options
    generator = np.random.default_rng(options.seed)
    job.console.print(
        f"Measuring the {counted(len(chosen), 'finalist')} again, {counted(options.rounds, 'time')} in turns ..."
    )
    rounds = remeasure(chosen, options.rounds, job.backend.run, job.append)
    first = judge(rounds, baselines, generator, LOOKS)
    if not first.is_promising:
        return rounds, first
    pair = [each for each in chosen if each.strategy in (first.candidate, first.baseline)]
    if _is_out_of_time(job, pair, len(rounds)):
        return rounds, _noted(first, "More rounds of these two would tell; the time budget has no room for them.")
    count = TIMES_MORE * options.rounds
    job.console.print(
        f"The best found seems {first.speedup:.2f} x as fast as {first.baseline_label}, which may be noise: measuring "
        f"these two up to {count} times more ...",
        soft_wrap=True,
    )
    try:
        more = remeasure(pair, count, job.backend.run, job.append, lambda: _is_out_of_time(job, pair, 1))
    except TrialError as error:
        if isinstance(error, NodesLostError) and options.on_node_loss == "shrink":
            raise
        return rounds, _noted(first, str(error))
    paired = [turn for turn in more if all(each.outcome == "ok" for each in turn)]
    if len(paired) < len(rounds):
        return rounds + more, _noted(first, f"Of more rounds of these two only {len(paired)} came about.")
    second = judge(paired, baselines, generator, LOOKS)
    why = f"The first {counted(len(rounds), 'round')} had promised {first.speedup:.2f} x, and not decided."
    return rounds + more, _noted(second, why)


def _is_out_of_time(job: Job, pair: Sequence[RuntimeRecord], rounds: int) -> bool:
    """Whether so many more rounds of the `pair` would end after the time budget."""
    seconds = rounds * sum(map(seconds_of_turn, pair))
    return job.seconds_gone + seconds > (job.options.time_budget_seconds or math.inf)


def _noted(verdict: Verdict, sentence: str) -> Verdict:
    return replace(verdict, note=f"{verdict.note} {sentence}".strip())
