"""Cut-offs by progress rather than throughput: chooses the number of gradients to wait for by their worth (DBW)."""

from __future__ import annotations

from collections.abc import Iterator

from autosync.spec import CutOff, Discipline, Pace, Spread, Target
from studies.literature.experiment import MOST_TRAINED, Claim, Experiment, WorkItem, mean_ratio, work_per_seed
from studies.literature.rows import FigureRow, FigureRows
from studies.literature.trained import (
    NODES,
    PASS_SECONDS,
    SECONDS,
    STEPS,
    Arm,
    World,
    rows_of_run,
    to_target,
    train,
)

PACE = Pace(scale=0.0, fixed_seconds=PASS_SECONDS, numbers="held", spread=Spread(lognormal=0.3))
WORLDS = {f"{examples} examples a replica": World("digits", examples, (PACE,) * NODES, 0.0) for examples in (64, 4)}
TARGET = Target("loss", 0.1, every=5, steps=2000)
COUNTED = "mean replicas counted"
ALL = "all"
ARMS = {
    **{f"first {count}": Arm(Discipline(waits=CutOff(count, late="stop"))) for count in range(1, NODES)},
    ALL: Arm(Discipline()),
    "after gradients (empirical)": Arm(Discipline(waits=CutOff(policy="empirical", late="stop"))),
    "after progress (gain)": Arm(Discipline(waits=CutOff(policy="gain", late="stop"))),
}


def _works(seeds: int) -> Iterator[WorkItem]:
    return work_per_seed(WORLDS, min(seeds, MOST_TRAINED), _rows)


def _rows(cell: str, seed: int) -> list[FigureRow]:
    rows = []
    for name, arm in ARMS.items():
        record = train(WORLDS[cell], arm, seed, TARGET)
        figures = {SECONDS: to_target(record), STEPS: float(record.steps)}
        figures[COUNTED] = sum(record.counted) / max(record.steps, 1)
        rows += rows_of_run(cell, name, seed, figures)
    return rows


def _claims(rows: FigureRows) -> Iterator[Claim]:
    for cell, least, most in (("64 examples a replica", 1.4, float("inf")), ("4 examples a replica", 1.0, 1.25)):
        gained = mean_ratio(rows.ratios(cell, ALL, "after progress (gain)", SECONDS))
        best = max((mean_ratio(rows.ratios(cell, ALL, arm, SECONDS)).value for arm in ARMS), default=float("nan"))
        yield Claim(f"after progress over waiting for all, {cell}", gained, least, most, bound=best)


EXPERIMENTS = (Experiment("progress", "Progress, not throughput", 1, _works, _claims, SECONDS),)
