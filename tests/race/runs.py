"""Builds records of simulated runs for the tests of the race."""

from __future__ import annotations

import math
from dataclasses import replace

from autosync.baselines import BASELINES
from autosync.race.candidates import PAIRS, RaceSetting
from autosync.race.plan import PlannedRun, Race
from autosync.spec import CurvePoint, Target, TargetRecord
from search_spaces import load_menu
from tests.cases import mlp_model, star_cluster

CLUSTER = star_cluster(4)
MODEL = mlp_model()
TARGET = Target("loss", 0.1, every=10, steps=1000)
SETTING = RaceSetting(MODEL, CLUSTER, BASELINES["all_reduce_25mb"](MODEL, CLUSTER))
OFFERS = load_menu("systems").of(replace(SETTING.circumstances, streams=(64.0, 32.0, 16.0, 8.0)))


def new_race(seeds: int = 3, runs: int = 500, combinations: int = 4) -> Race:
    return Race(SETTING.candidates(OFFERS), tuple(SETTING.combinations(OFFERS, PAIRS)), seeds, combinations, runs)


def curve_of(steps: int, step_seconds: float) -> tuple[CurvePoint, ...]:
    """A loss that falls exponentially from 1 to the target."""
    return tuple(
        CurvePoint(step, step * step_seconds, TARGET.threshold ** (step / steps)) for step in range(0, steps + 1, 10)
    )


def run_of(planned: PlannedRun, steps: int, step_seconds: float) -> TargetRecord:
    """Return the record of a run that needs `steps` steps: given up if it takes more than twice the rival's time."""
    curve, behind, reason = curve_of(steps, step_seconds), None, ""
    if planned.rival:
        behind = steps * step_seconds / planned.rival[-1].seconds
        if behind > 2:
            curve, reason = curve[: max(len(curve) // 5, 2)], "Given up."
        else:
            behind = None
    taken = curve[-1].step
    return TargetRecord(
        MODEL,
        CLUSTER,
        planned.candidate.strategy,
        TARGET,
        "not_reached" if reason else "reached",
        planned.seed,
        0.0,
        math.ceil(taken * step_seconds),
        reason,
        curve,
        (step_seconds,) * taken,
        (1.0,) * taken,
        behind=behind,
        label=planned.candidate.name,
    )


def failed(planned: PlannedRun, outcome: str = "failed") -> TargetRecord:
    return TargetRecord(
        MODEL, CLUSTER, planned.candidate.strategy, TARGET, outcome, planned.seed, 0.0, 1.0, "It failed.",
        label=planned.candidate.name,
    )  # fmt: skip
