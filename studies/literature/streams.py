"""Examples that arrive in streams of different rates, with and without injection (ScaDLES, Tyagi and Swany 2022)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autosync.engine.core.timetable import Timetable
from autosync.spec import PLAIN, Discipline, Loads, Pace, Target
from studies.literature.experiment import MOST_TRAINED, Claim, Experiment, WorkItem, exactly, mean_ratio, work_per_seed
from studies.literature.rows import FigureRow, FigureRows
from studies.literature.trained import SECONDS, STEPS, Arm, World, rows_of_run, to_target, train

STREAMS = (64.0, 32.0, 16.0, 8.0)
BATCH, TAKEN = 64, 400
UNLIKE = "64 32 16 8 a second"
RATE, BUFFERED = "examples a second", "most examples that wait"
EQUAL, COMING = "equal", "as they come"

PACES = tuple(Pace(scale=0.0, fixed_seconds=0.01, numbers="held", stream=rate) for rate in STREAMS)
BYTES = 64 * 4 + 4
"""Bytes of an example of `digits`: pixels and a label."""

INJECTED = 0.1
WORLDS = {
    "i.i.d.": World("digits", BATCH, PACES, 0.0),
    "by label": World("digits-by-label", BATCH, PACES, 0.0),
    "by label, a tenth injected": World("digits-by-label", BATCH, PACES, 0.0, INJECTED),
}
ARMS = {EQUAL: PLAIN, COMING: Discipline(loads=Loads(STREAMS))}
TARGET = Target("loss", 0.2, every=5, steps=2000)
SENT = "injected bytes a virtual s"


def _works(seeds: int) -> Iterator[WorkItem]:
    yield WorkItem("streams", _rates)
    yield from work_per_seed(WORLDS, min(seeds, MOST_TRAINED), _to_target)


def _rates() -> list[FigureRow]:
    """Run steps that wait only for their examples."""
    rows = []
    even = np.full(len(STREAMS), float(BATCH))
    arms = {EQUAL: even, COMING: even.sum() * np.array(STREAMS) / sum(STREAMS)}
    for arm, examples in arms.items():
        now = 0.0
        timetable = Timetable(STREAMS, stops=False, clock=lambda: now)  # noqa: B023 - read while the loop turns
        most = 0.0
        for _ in range(TAKEN):
            ends = timetable.begin(np.full(len(STREAMS), 1e-3), examples.tolist(), [True] * len(STREAMS))
            now += float(np.max(ends.delays + ends.waited))
            timetable.end()
            most = max(most, *(count or 0.0 for count in timetable.buffered))
        rows += [
            FigureRow(UNLIKE, arm, 0, RATE, float(examples.sum()) * TAKEN / now),
            FigureRow(UNLIKE, arm, 0, BUFFERED, most),
        ]
    return rows


def _to_target(cell: str, seed: int) -> list[FigureRow]:
    rows, world = [], WORLDS[cell]
    for arm, discipline in ARMS.items():
        record = train(world, Arm(discipline), seed, TARGET)
        figures = {SECONDS: to_target(record), STEPS: float(record.steps)}
        if world.injected:
            examples = len(STREAMS) * BATCH * record.steps
            figures[SENT] = world.injected * examples * BYTES / sum(record.step_seconds)
        rows += rows_of_run(cell, arm, seed, figures)
    return rows


def _claims(rows: FigureRows) -> Iterator[Claim]:
    bound = float(np.mean(STREAMS) / min(STREAMS))
    gained = mean_ratio(rows.ratios(UNLIKE, COMING, EQUAL, RATE))
    yield Claim("examples as they come over equal batches, a second", gained, 3.5, bound=bound)
    buffered = next(iter(rows.values(UNLIKE, COMING, BUFFERED).values()), float("nan"))
    yield Claim("examples that wait, as they come", exactly(buffered), most=2 * BATCH)
    for cell in WORLDS:
        least = 2.0 if cell == "i.i.d." else -np.inf
        yield Claim(
            f"equal batches over as they come, time, {cell}",
            mean_ratio(rows.ratios(cell, EQUAL, COMING, SECONDS)),
            least,
            bound=bound,
        )
    plain, injected = (rows.values(cell, COMING, SECONDS) for cell in ("by label", "by label, a tenth injected"))
    over = np.array([plain[seed] / injected[seed] for seed in plain if seed in injected])
    yield Claim("time without injection over with it, by label, as they come", mean_ratio(over), 1.0)


EXPERIMENTS = (Experiment("streams", "Streams of unlike rates", 2, _works, _claims, RATE),)
