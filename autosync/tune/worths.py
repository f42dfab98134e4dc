"""The winner against itself with one decision reverted: choosing decisions, timing in turns, and what each is worth."""

from __future__ import annotations

import math

import numpy as np

from autosync.baselines.nearest import nearest_baseline
from autosync.runs import REVERTED
from autosync.search import Worth, counterfactuals, worth_of
from autosync.spec import RuntimeRecord
from autosync.tune.finals import again, seconds_of_turn, take_turns
from autosync.tune.job import Job
from autosync.words.quantities import counted

__all__ = ["measure_worths"]


def measure_worths(job: Job, winner: RuntimeRecord) -> list[Worth]:
    """What those decisions of `winner`'s strategy are worth that most likely matter; none for a baseline itself.

    There are as many rounds as in the finals, or fewer when the time budget ends. Raises `TrialError` when no trial can
    be run any more.
    """
    model, cluster, options = job.backend.model, job.backend.cluster, job.options
    nearest = nearest_baseline(winner.strategy, model, cluster)
    chosen = counterfactuals(model, cluster, winner.strategy, nearest.strategy, options.counterfactuals)
    if not chosen:
        return []
    job.console.print(
        f"Reverting {len(chosen)} of the winner's decisions, each by itself, {counted(options.rounds, 'time')} ..."
    )
    requests = [again(winner, f"{REVERTED}nothing")]
    requests += [again(winner, f"{REVERTED}{each.label}", each.strategy) for each in chosen]
    seconds_a_round = len(requests) * seconds_of_turn(winner)
    budget = options.time_budget_seconds or math.inf
    rounds = take_turns(
        requests, options.rounds, job.backend.run, job.append, lambda: job.seconds_gone + seconds_a_round > budget
    )
    generator = np.random.default_rng(options.seed)
    return [worth_of(each, winner.strategy, rounds, generator) for each in chosen]
