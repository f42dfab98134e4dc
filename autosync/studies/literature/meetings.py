"""How seldom replicas may meet: SelSync, periods, FedAvg, elastic and block averages, i.i.d. and by label."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosync.spec import BlockMomentum, Discipline, Elastic, Rhythm, Target
from autosync.studies.literature.experiment import MOST_TRAINED, Claim, Experiment, Work, exactly, mean_ratio, paired
from autosync.studies.literature.rows import Row, Rows
from autosync.studies.literature.trained import (
    NODES,
    PASS_SECONDS,
    STEADY,
    STEPS,
    Arm,
    World,
    rows_of_run,
    to_target,
    trained,
)

RATIOS = (7.5, 0.1)
"""What an exchange takes, in passes."""

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


def _works(seeds: int) -> Iterator[Work]:
    return paired(TASKS, min(seeds, MOST_TRAINED), _rows)


def _rows(cell: str, seed: int) -> list[Row]:
    """One run of each arm: what an exchange takes changes no step, so the other ratio's seconds follow."""
    rows = []
    world = World(TASKS[cell], 16, (STEADY,) * NODES, RATIOS[0] * PASS_SECONDS)
    for name, rhythm in ARMS.items():
        record = trained(world, Arm(Discipline(rhythm)), seed, TARGET)
        met, steps = record.met, record.steps
        figures = {_figure(RATIOS[0]): to_target(record), STEPS: float(steps), MET: float(met)}
        figures[LOCAL] = 1 - met / max(steps, 1)
        reached = to_target(record) < math.inf
        figures[_figure(RATIOS[1])] = (steps + RATIOS[1] * met) * PASS_SECONDS if reached else math.inf
        rows += rows_of_run(cell, name, seed, figures)
    return rows


def _claims(rows: Rows) -> Iterator[Claim]:
    for ratio in RATIOS:
        over = max((_over_bound(rows, cell, arm, ratio) for cell in rows.cells for arm in ARMS), default=math.nan)
        yield Claim(f"the most that any is over its bound, an exchange of {ratio:g} passes", exactly(over), most=1.0001)
    gained = {
        (cell, arm, ratio): mean_ratio(rows.paired(cell, EVERY, arm, _figure(ratio)))
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
        found = [gained[cell, arm, ratio] for arm in among if (cell, arm, ratio) in gained]
        if found:
            best = max(found, key=lambda each: each.value if math.isfinite(each.value) else 0.0)
            bound = 1 + ratio if cell == "i.i.d." else None
            yield Claim(f"{says}, {cell}, an exchange of {ratio:g} passes", best, least, most, bound)
    never = rows.values("by label", NEVER, _figure(7.5)).values()
    yield Claim("by label, never meeting never arrives", exactly(float(all(map(math.isinf, never)))), least=1.0)


def _over_bound(rows: Rows, cell: str, arm: str, ratio: float) -> float:
    """Beside meeting in every step, how many times the most that so few meetings allow, if as many steps were taken."""
    gained = rows.paired(cell, EVERY, arm, _figure(ratio))
    every, own = rows.values(cell, EVERY, STEPS), rows.values(cell, arm, STEPS)
    local = rows.values(cell, arm, LOCAL)
    worst = 0.0
    for place, seed in enumerate(seed for seed in own if seed in every):
        bound = every[seed] / own[seed] * (1 + ratio) / (1 + ratio * (1 - local[seed]))
        worst = max(worst, float(gained[place]) / bound) if math.isfinite(gained[place]) else worst
    return worst


def _local(rows: Rows, cell: str, arm: str) -> float:
    values = list(rows.values(cell, arm, LOCAL).values())
    return sum(values) / len(values) if values else 0.0


EXPERIMENTS = (Experiment("meetings", "How seldom replicas may meet", 1, _works, _claims, _figure(7.5)),)
