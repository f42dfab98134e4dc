"""The number of workers and of examples per step, predicted from the corners of the grid of choices (Scavenger, Tyagi
and Sharma 2023).

The number of steps comes from real training with the given examples per step; the number of workers does not change it.
The time of a step on K workers is drawn: the slowest of K passes, plus a ring's exchange.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np

from autosync.numeric import FloatArray
from autosync.spec import Discipline, Target
from studies.literature.experiment import MOST_TRAINED, Claim, Experiment, WorkItem, exactly
from studies.literature.rows import FigureRow, FigureRows
from studies.literature.trained import NODES, STEADY, STEPS, Arm, World, rows_of_run, to_target, train

WORKERS, EXAMPLES = (2, 3, 4), (32, 64, 128, 256)
PASS_SECONDS, EXCHANGE_SECONDS, JITTER = 0.004, 0.15, 0.1
"""Seconds of an example's pass, seconds of a whole gradient over one link, and the sigma of a pass's log-normal."""

PROFILED = 20
"""Profiled steps of each corner."""

TARGET = Target("loss", 0.2, every=5, steps=3000)
TIME, PREDICTED, COST, PREDICTED_COST = (
    "virtual s",
    "virtual s, predicted",
    "virtual worker s",
    "virtual worker s, predicted",
)
CORNERS = tuple(product((WORKERS[0], WORKERS[-1]), (EXAMPLES[0], EXAMPLES[-1])))


def _works(seeds: int) -> Iterator[WorkItem]:
    for seed in range(min(seeds, MOST_TRAINED)):
        yield WorkItem(f"{seed}", partial(_rows, seed))


def _rows(seed: int) -> list[FigureRow]:
    steps = {}
    for examples in EXAMPLES:
        world = World("digits", examples // NODES, (STEADY,) * NODES, 0.0)
        record = train(world, Arm(Discipline()), seed, TARGET)
        assert to_target(record) < math.inf, f"{examples} examples a step do not reach the target."
        steps[examples] = record.steps
    draw = np.random.default_rng(seed)
    profiled = {corner: float(np.mean(step_seconds(*corner, draw, PROFILED))) for corner in CORNERS}
    of_step = _fit_seconds(profiled)
    of_run = _fit_steps({examples: steps[examples] for examples in (EXAMPLES[0], EXAMPLES[-1])})
    rows = []
    for workers, examples in product(WORKERS, EXAMPLES):
        cell, arm = f"{workers} workers", f"{examples} examples a step"
        seconds = float(np.sum(step_seconds(workers, examples, draw, steps[examples])))
        predicted = of_run[0] + of_run[1] / examples
        predicted *= of_step[0] + of_step[1] * examples / workers + of_step[2] * workers
        figures = {STEPS: float(steps[examples]), TIME: seconds, PREDICTED: predicted}
        figures |= {COST: workers * seconds, PREDICTED_COST: workers * predicted}
        rows += rows_of_run(cell, arm, seed, figures)
    return rows


def step_seconds(workers: int, examples: int, draw: np.random.Generator, steps: int) -> FloatArray:
    """Draw the seconds of `steps` steps, float64 (steps,)."""
    passes = PASS_SECONDS * examples / workers * np.exp(draw.normal(0, JITTER, (steps, workers)))
    return np.asarray(passes.max(1) + EXCHANGE_SECONDS * 2 * (workers - 1) / workers)


def _fit_seconds(profiled: dict[tuple[int, int], float]) -> tuple[float, float, float]:
    """Fit a step's seconds: a constant, a factor for each worker's examples, and a factor for the number of workers."""
    known = np.array([[1.0, examples / workers, workers] for workers, examples in profiled])
    coefficients, *_ = np.linalg.lstsq(known, np.array(list(profiled.values())), rcond=None)
    return float(coefficients[0]), float(coefficients[1]), float(coefficients[2])


def _fit_steps(steps: dict[int, int]) -> tuple[float, float]:
    """Fit the number of steps as `a + b / examples` to the fewest and the most examples; return `a` and `b`."""
    (few, more), (many, less) = sorted(steps.items())
    slope = (more - less) / (1 / few - 1 / many)
    return less - slope / many, slope


def _claims(rows: FigureRows) -> Iterator[Claim]:
    errors = [
        abs(predicted / actual - 1)
        for workers, examples in product(WORKERS, EXAMPLES)
        if (workers, examples) not in CORNERS
        for predicted, actual in _pairs(rows, workers, examples, PREDICTED, TIME)
    ]
    yield Claim(
        "median error of seconds outside the profiled corners",
        exactly(statistics.median(errors) if errors else math.nan),
        most=0.1,
    )
    for goal, figure, predicted in (("time", TIME, PREDICTED), ("cost", COST, PREDICTED_COST)):
        regrets = _regrets(rows, figure, predicted)
        worst = exactly(max(regrets) if regrets else math.nan)
        yield Claim(f"the choice over the best in {goal}, worst seed", worst, most=1.1, bound=1.0)


def _pairs(rows: FigureRows, workers: int, examples: int, figure: str, second: str) -> Iterator[tuple[float, float]]:
    cell, arm = f"{workers} workers", f"{examples} examples a step"
    mine, second_values = rows.values(cell, arm, figure), rows.values(cell, arm, second)
    yield from ((mine[seed], second_values[seed]) for seed in mine)


def _regrets(rows: FigureRows, figure: str, predicted: str) -> list[float]:
    """Return, for each seed, the figure of the predicted choice divided by the best figure."""
    places = list(product(WORKERS, EXAMPLES))
    by_place = [list(_pairs(rows, *place, predicted, figure)) for place in places]
    regrets = []
    for of_seed in zip(*by_place, strict=True):
        chosen = min(of_seed)[1]
        regrets.append(chosen / min(actual for _, actual in of_seed))
    return regrets


EXPERIMENTS = (Experiment("workers", "How many workers, and how many examples a step", 1, _works, _claims, TIME),)
