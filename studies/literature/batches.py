"""Dynamic batching for replicas of different speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from autosync.control import controller_of
from autosync.control.protocol import Controller
from autosync.spec import Discipline, Loads, StepReport, Strategy
from studies.literature.experiment import Claim, Experiment, WorkItem, exactly, mean_ratio, work_per_seed
from studies.literature.rows import FigureRow, FigureRows

RATE, IDEAL, AGAIN, CHANGED = (
    "examples a second",
    "ideal, mean over least speed",
    "adjustments until 90 % again",
    "steps with other loads",
)
EXAMPLES, STEPS = 256, 400
SPEEDS = {"1 and 0.25": (1.0, 0.25), "H2, cores 9 12 18": (9.0, 12.0, 18.0), "H10, cores 2 17 20": (2.0, 17.0, 20.0)}
EQUAL, STATIC, DYNAMIC = "equal", "by speed, static", "dynamic"
STEADY, EXCHANGED = "", ", exchanged at half time"


def _controller(arm: str, speeds: Sequence[float]) -> Controller:
    count = len(speeds)
    loads = {
        EQUAL: Loads((1.0,) * count),
        STATIC: Loads(tuple(speeds)),
        DYNAMIC: Loads((1.0,) * count, dead_band=0.05),
    }[arm]
    made = controller_of(Strategy(tuple(f"node{number}/cpu:0" for number in range(count)), (), Discipline(loads=loads)))
    assert made is not None
    return made


def _works(seeds: int) -> Iterator[WorkItem]:
    return work_per_seed(SPEEDS, seeds, _batches)


def _batches(name: str, seed: int) -> list[FigureRow]:
    rows = []
    for turn in (STEADY, EXCHANGED):
        for arm in (EQUAL, STATIC, DYNAMIC):
            rows += _of_arm(name, turn, arm, seed)
    return rows


def _of_arm(name: str, turn: str, arm: str, seed: int) -> list[FigureRow]:
    cell, speeds = name + turn, np.array(SPEEDS[name])
    draw = np.random.default_rng(seed)
    controller = _controller(arm, SPEEDS[name])
    seconds, loads, rates = 0.0, [], []
    for step in range(STEPS):
        now = speeds[::-1] if turn and step >= STEPS // 2 else speeds
        decision = controller.decide()
        assert decision.loads is not None
        times = EXAMPLES * np.array(decision.loads) / now * np.exp(draw.normal(0, 0.03, len(now)))
        controller.observe(StepReport(decision, 1.0, arrivals=tuple(map(float, times))))
        seconds += float(times.max())
        rates.append(EXAMPLES / float(times.max()))
        loads.append(decision.loads)
    changes = [before != after for before, after in pairwise(loads)]
    rows = [
        FigureRow(cell, arm, seed, RATE, EXAMPLES * STEPS / seconds),
        FigureRow(cell, arm, seed, CHANGED, float(np.mean(changes))),
        FigureRow(cell, arm, seed, IDEAL, float(speeds.mean() / speeds.min())),
    ]
    if turn:
        half = STEPS // 2
        usual = float(np.median(rates[half // 2 : half]))
        back = next((step for step in range(half, STEPS) if rates[step] >= 0.9 * usual), None)
        rows.append(FigureRow(cell, arm, seed, AGAIN, float("inf") if back is None else float(sum(changes[half:back]))))
    return rows


def _claims(rows: FigureRows) -> Iterator[Claim]:
    for name, least in zip(SPEEDS, (2.3, 1.37, 5.9), strict=True):
        bound = max(rows.values(name, DYNAMIC, IDEAL).values(), default=None)
        yield Claim(
            f"dynamic over equal batches, {name}",
            mean_ratio(rows.ratios(name, DYNAMIC, EQUAL, RATE)),
            least,
            bound=bound,
        )
    cell = "1 and 0.25" + EXCHANGED
    worst = max(rows.values(cell, DYNAMIC, AGAIN).values(), default=float("nan"))
    yield Claim("adjustments until 90 % again, after speeds were exchanged", exactly(worst), most=2)
    yield Claim(
        "dynamic over static, exchanged at half time", mean_ratio(rows.ratios(cell, DYNAMIC, STATIC, RATE)), least=1.0
    )
    changed = max((max(rows.values(name, DYNAMIC, CHANGED).values(), default=0.0) for name in SPEEDS), default=0.0)
    yield Claim("share of steps after which loads change, 3 % jitter", exactly(changed), most=0.05)


EXPERIMENTS = (Experiment("batches", "Dynamic batching, speeds that differ and change", 1, _works, _claims, RATE),)
