"""The fastest discipline to a target, by stragglers, duration of an exchange, and similarity of the replicas' data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from autosync.spec import PLAIN, BlockMomentum, CutOff, Discipline, Fidelity, Loads, Rhythm, Slow, Spread, Target
from autosync.stats.estimate import Estimate
from studies.literature.experiment import Claim, Experiment, WorkItem, mean_ratio, work_per_seed
from studies.literature.rows import FigureRow, FigureRows
from studies.literature.trained import (
    NODES,
    PASS_SECONDS,
    SECONDS,
    STEADY,
    Arm,
    World,
    rows_of_run,
    to_target,
    train,
    volume,
)
from studies.pages import RC

SPELLS = Spread(lognormal=0.2, slow=Slow(probability=0.15, dwell=10, factor=3))
STRAGGLING = {
    "none": (STEADY,) * NODES,
    "now and then": (replace(STEADY, spread=SPELLS),) * NODES,
    "one 3 x slower": (*(STEADY,) * (NODES - 1), replace(STEADY, batch_seconds=3 * PASS_SECONDS)),
}
EXCHANGES = (0.1, 1.0, 7.5)
"""Duration of a dense exchange, in passes."""

TASKS = {"all draw alike": "digits", "each has its own kinds": "digits-by-label"}
TARGET = Target("loss", 0.2, every=5, steps=1500)
SEEDS = 3

NOTHING, WAITS, MEETS, SENDS, SHARES = "plain", "cut off", "meet seldom", "compress", "share out"
ARMS = {
    NOTHING: (NOTHING, Arm(PLAIN)),
    "first 3": (WAITS, Arm(Discipline(waits=CutOff(NODES - 1)))),
    "filter": (WAITS, Arm(Discipline(waits=CutOff(policy="filter")))),
    "local SGD, 8": (MEETS, Arm(Discipline(Rhythm(8)))),
    "FedAvg, 32": (MEETS, Arm(Discipline(Rhythm(32)))),
    "BMUF, 8": (MEETS, Arm(Discipline(Rhythm(8, block=BlockMomentum(1 - 1 / NODES))))),
    "top-k 0.1": (SENDS, Arm(Discipline(fidelity=Fidelity((0.1,), 1)), 0.1)),
    "top-k 0.01": (SENDS, Arm(Discipline(fidelity=Fidelity((0.01,), 1)), 0.01)),
    "dynamic batches": (SHARES, Arm(Discipline(loads=Loads((1.0,) * NODES, dead_band=0.05)))),
    "2 x batch": (SHARES, Arm(Discipline(loads=Loads((1.0,) * NODES, times=2.0)))),
    "first 3 + top-k 0.01": (
        f"{WAITS} and {SENDS}",
        Arm(Discipline(waits=CutOff(NODES - 1), fidelity=Fidelity((0.01,), 1)), 0.01),
    ),
}
COLORS = {
    NOTHING: "#d9d9d9",
    WAITS: "#fdb462",
    MEETS: "#80b1d3",
    SENDS: "#b3de69",
    SHARES: "#bc80bd",
    f"{WAITS} and {SENDS}": "#ffed6f",
}


def _cell(data: str, straggling: str, exchange: float) -> str:
    return f"{data}; stragglers {straggling}; an exchange takes {exchange:g} passes"


PLACES = {f"{data}, {straggling}": (data, straggling) for data in TASKS for straggling in STRAGGLING}


def _works(seeds: int) -> Iterator[WorkItem]:
    return work_per_seed(PLACES, min(seeds, SEEDS), _rows)


def _rows(place: str, seed: int) -> list[FigureRow]:
    """Run every arm with every duration of an exchange.

    For a cut-off, the duration influences which replicas are late, so each duration needs a run. For all other arms,
    one run determines the seconds for every duration.
    """
    data, straggling = PLACES[place]
    rows = []
    for name, (_, arm) in ARMS.items():
        for exchange in EXCHANGES if arm.discipline.waits else EXCHANGES[:1]:
            world = World(TASKS[data], 16, STRAGGLING[straggling], exchange * PASS_SECONDS)
            record = train(world, arm, seed, TARGET)
            sent = record.met * volume(1.0 if arm.keeps is None else arm.keeps)
            for target_exchange in (exchange,) if arm.discipline.waits else EXCHANGES:
                seconds = to_target(record) + (target_exchange - exchange) * PASS_SECONDS * sent
                rows += rows_of_run(_cell(data, straggling, target_exchange), name, seed, {SECONDS: seconds})
    return rows


def gain(rows: FigureRows, cell: str, arm: str) -> Estimate:
    """Return the speed-up over plain training; 0 if a seed did not reach the target."""
    ratios = rows.ratios(cell, NOTHING, arm, SECONDS)
    return mean_ratio(ratios) if (ratios > 0).all() else Estimate(0.0, 0.0, 0.0)


def best(rows: FigureRows, cell: str) -> tuple[str, Estimate]:
    """Return the fastest discipline of a cell and its gain; plain training if none is faster beyond its interval."""
    gains = {arm: gain(rows, cell, arm) for arm in ARMS if arm != NOTHING}
    first = max(gains, key=lambda arm: gains[arm].value)
    return (first, gains[first]) if gains[first].low > 1 else (NOTHING, Estimate(1.0, 1.0, 1.0))


def _claims(rows: FigureRows) -> Iterator[Claim]:
    for cell in rows.cells:
        arm, fastest = best(rows, cell)
        yield Claim(f"{cell}: {arm} over plain", fastest)
    if not rows.cells:
        yield Claim("the fastest over plain", Estimate(math.nan, -math.inf, math.inf))


def picture(rows: FigureRows) -> Figure:
    """Draw a tile for each cell, with the fastest discipline and its gain, in the color of the discipline's kind."""
    with mpl.rc_context(dict[Any, Any](RC)):
        figure = Figure(figsize=(9.5, 4.6))
        for axis, data in zip(np.ravel(figure.subplots(1, len(TASKS))), TASKS, strict=True):
            for column, straggling in enumerate(STRAGGLING):
                for row, exchange in enumerate(EXCHANGES):
                    cell = _cell(data, straggling, exchange)
                    if cell not in rows.cells:
                        continue
                    arm, fastest = best(rows, cell)
                    axis.add_patch(
                        mpl.patches.Rectangle((column, row), 1, 1, facecolor=COLORS[ARMS[arm][0]], edgecolor="white")
                    )
                    label = arm.replace(" + ", "\n+ ") + ("" if arm == NOTHING else f"\n{fastest.value:.2f} x")
                    axis.text(column + 0.5, row + 0.5, label, ha="center", va="center", fontsize=8)
            axis.set(xlim=(0, len(STRAGGLING)), ylim=(0, len(EXCHANGES)), title=data, xlabel="who is slow")
            axis.set_xticks(np.arange(len(STRAGGLING)) + 0.5, list(STRAGGLING))
            axis.set_yticks(np.arange(len(EXCHANGES)) + 0.5, [f"{exchange:g}" for exchange in EXCHANGES])
            axis.grid(visible=False)
        figure.axes[0].set_ylabel("passes that a dense exchange takes")
    return figure


EXPERIMENTS = (Experiment("regions", "Which discipline when", 1, _works, _claims, SECONDS, picture),)
