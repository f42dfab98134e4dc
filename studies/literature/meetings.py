"""Local SGD with rare averaging: SelSync, periods, FedAvg, elastic and block averages, on data i.i.d. and by label."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosync.spec import BlockMomentum, Discipline, Elastic, Rhythm, Target
from studies.literature.experiment import MOST_TRAINED, Claim, Experiment, WorkItem, exactly, mean_ratio, work_per_seed
from studies.literature.rows import FigureRow, FigureRows
from studies.literature.trained import (
    NODES,
    PASS_SECONDS,
    STEADY,
    STEPS,
    Arm,
    World,
    rows_of_run,
    to_target,
    train,
)

RATIOS = (7.5, 0.1)
"""Duration of an exchange, in passes."""

TASKS = {"i.i.d.": "digits", "by label": "digits-by-label"}
TARGET = Target("loss", 0.2, every=10, steps=1500)
LOCAL = "share of steps without a meeting"
EVERY, NEVER = "every step", "never"
ARMS = {
    EVERY: Rhythm(1, averages="gradients"),
    "SelSync 0.04": Rhythm(threshold=0.04),
    "SelSync 0.1": Rhythm(threshold=0.1),
    "SelSync 0.3": Rhythm(threshold=0.3),
    "SelSync, a tenth": Rhythm(quantile=0.9),
    "every 4th": Rhythm(4),
    "every 8th": Rhythm(8),
    "every 32nd (FedAvg)": Rhythm(32),
    "every 64th": Rhythm(64),
    "BMUF, 8": Rhythm(8, block=BlockMomentum(1 - 1 / NODES)),
    "EASGD, 10": Rhythm(10, elastic=Elastic(0.9 / NODES)),
    "8 after 100": Rhythm(8, after=100),
    NEVER: Rhythm(100_000),
}
MET = "steps with a meeting"


def _figure(ratio: float) -> str:
    return f"virtual s, an exchange takes {ratio:g} passes"


def _works(seeds: int) -> Iterator[WorkItem]:
    return work_per_seed(TASKS, min(seeds, MOST_TRAINED), _rows)


def _rows(cell: str, seed: int) -> list[FigureRow]:
    """Run each arm once. The exchange's duration changes no step, so the seconds for the other ratio are computed."""
    rows = []
    world = World(TASKS[cell], 16, (STEADY,) * NODES, RATIOS[0] * PASS_SECONDS)
    for name, rhythm in ARMS.items():
        record = train(world, Arm(Discipline(rhythm)), seed, TARGET)
        met, steps = record.met, record.steps
        figures = {_figure(RATIOS[0]): to_target(record), STEPS: float(steps), MET: float(met)}
        figures[LOCAL] = 1 - met / max(steps, 1)
        reached = to_target(record) < math.inf
        figures[_figure(RATIOS[1])] = (steps + RATIOS[1] * met) * PASS_SECONDS if reached else math.inf
        rows += rows_of_run(cell, name, seed, figures)
    return rows


def _claims(rows: FigureRows) -> Iterator[Claim]:
    for ratio in RATIOS:
        over = max((_over_bound(rows, cell, arm, ratio) for cell in rows.cells for arm in ARMS), default=math.nan)
        yield Claim(
            f"the largest ratio of a gain to its bound, an exchange of {ratio:g} passes", exactly(over), most=1.0001
        )
    gained = {
        (cell, arm, ratio): mean_ratio(rows.ratios(cell, EVERY, arm, _figure(ratio)))
        for cell in rows.cells
        for arm in ARMS
        for ratio in RATIOS
    }
    for cell, ratio, among, least, most, says in (
        (
            "i.i.d.",
            7.5,
            [arm for arm in ARMS if _local(rows, "i.i.d.", arm) >= 0.8],
            2.0,
            math.inf,
            "the best at 0.8 local or more",
        ),
        (
            "by label",
            7.5,
            [arm for arm in ARMS if arm.startswith("every ") and arm != EVERY],
            1.5,
            math.inf,
            "the best period",
        ),
        ("i.i.d.", 0.1, [arm for arm in ARMS if arm != EVERY], -math.inf, 1.1, "the best of all"),
        (
            "by label",
            0.1,
            [arm for arm in ARMS if arm.startswith("every ") and arm != EVERY],
            -math.inf,
            1.0,
            "the best period",
        ),
    ):
        gains = [gained[cell, arm, ratio] for arm in among if (cell, arm, ratio) in gained]
        if gains:
            best = max(gains, key=lambda gain: gain.value if math.isfinite(gain.value) else 0.0)
            bound = 1 + ratio if cell == "i.i.d." else None
            yield Claim(f"{says}, {cell}, an exchange of {ratio:g} passes", best, least, most, bound)
    never = rows.values("by label", NEVER, _figure(7.5)).values()
    yield Claim("by label, never meeting never arrives", exactly(float(all(map(math.isinf, never)))), least=1.0)


def _over_bound(rows: FigureRows, cell: str, arm: str, ratio: float) -> float:
    """Return the largest ratio over seeds of an arm's gain to the bound of that gain.

    The bound is the gain over averaging in every step that the arm's number of steps and of averages allows.
    """
    gained = rows.ratios(cell, EVERY, arm, _figure(ratio))
    every, steps = rows.values(cell, EVERY, STEPS), rows.values(cell, arm, STEPS)
    local = rows.values(cell, arm, LOCAL)
    worst = 0.0
    for place, seed in enumerate(seed for seed in steps if seed in every):
        bound = every[seed] / steps[seed] * (1 + ratio) / (1 + ratio * (1 - local[seed]))
        worst = max(worst, float(gained[place]) / bound) if math.isfinite(gained[place]) else worst
    return worst


def _local(rows: FigureRows, cell: str, arm: str) -> float:
    values = list(rows.values(cell, arm, LOCAL).values())
    return sum(values) / len(values) if values else 0.0


EXPERIMENTS = (Experiment("meetings", "How seldom replicas may meet", 1, _works, _claims, _figure(7.5)),)
