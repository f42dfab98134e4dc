"""How many workers, and how many examples a step: both predicted from the corners of what there is to choose from
(Scavenger, Tyagi and Sharma 2023).

Steps are those of real training on so many examples in all; who computes them changes no number. What a step takes on
K workers is drawn: the slowest of their passes, and a ring's exchange.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np

from autosync.spec import Discipline, Target
from autosync.stats.estimate import Floats
from autosync.studies.literature.experiment import MOST_TRAINED, Claim, Experiment, Work, exactly
from autosync.studies.literature.rows import Row, Rows
from autosync.studies.literature.trained import NODES, STEADY, STEPS, Arm, World, rows_of_run, to_target, trained

WORKERS, EXAMPLES = (2, 3, 4), (32, 64, 128, 256)
PASS_SECONDS, EXCHANGE_SECONDS, JITTER = 0.004, 0.15, 0.1
"""Of an example, of a whole gradient over one link, and the sigma of a pass's log-normal."""

PROFILED = 20
"""Steps that a corner is profiled for."""

TARGET = Target("loss", 0.2, every=5, steps=3000)
TIME, PREDICTED, COST, PREDICTED_COST = (
    "virtual s",
    "virtual s, predicted",
    "virtual worker s",
    "virtual worker s, predicted",
)
CORNERS = tuple(product((WORKERS[0], WORKERS[-1]), (EXAMPLES[0], EXAMPLES[-1])))


def _works(seeds: int) -> Iterator[Work]:
    for seed in range(min(seeds, MOST_TRAINED)):
        yield Work(f"{seed}", partial(_rows, seed))


def _rows(seed: int) -> list[Row]:
    steps = {}
    for examples in EXAMPLES:
        world = World("digits", examples // NODES, (STEADY,) * NODES, 0.0)
        record = trained(world, Arm(Discipline()), seed, TARGET)
        assert to_target(record) < math.inf, f"{examples} examples a step do not reach the target."
        steps[examples] = record.steps
    draw = np.random.default_rng(seed)
    profiled = {corner: float(np.mean(step_seconds(*corner, draw, PROFILED))) for corner in CORNERS}
    of_step = _seconds_fitted(profiled)
    of_run = _steps_fitted({examples: steps[examples] for examples in (EXAMPLES[0], EXAMPLES[-1])})
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


def step_seconds(workers: int, examples: int, draw: np.random.Generator, steps: int) -> Floats:
    """What so many steps take, float64 (steps,)."""
    passes = PASS_SECONDS * examples / workers * np.exp(draw.normal(0, JITTER, (steps, workers)))
    return np.asarray(passes.max(1) + EXCHANGE_SECONDS * 2 * (workers - 1) / workers)


def _seconds_fitted(profiled: dict[tuple[int, int], float]) -> tuple[float, float, float]:
    """A step's seconds as a constant, a factor of each worker's examples, and one of the number of workers."""
    known = np.array([[1.0, examples / workers, workers] for workers, examples in profiled])
    found, *_ = np.linalg.lstsq(known, np.array(list(profiled.values())), rcond=None)
    return float(found[0]), float(found[1]), float(found[2])


def _steps_fitted(steps: dict[int, int]) -> tuple[float, float]:
    """The least steps, and what is to be divided by the examples of a step, from the fewest and the most examples."""
    (few, more), (many, less) = sorted(steps.items())
    slope = (more - less) / (1 / few - 1 / many)
    return less - slope / many, slope


def _claims(rows: Rows) -> Iterator[Claim]:
    errors = [
        abs(predicted / actual - 1)
        for workers, examples in product(WORKERS, EXAMPLES)
        if (workers, examples) not in CORNERS
        for predicted, actual in _both(rows, workers, examples, PREDICTED, TIME)
    ]
    yield Claim(
        "median error of seconds where nothing was profiled",
        exactly(statistics.median(errors) if errors else math.nan),
        most=0.1,
    )
    for what, figure, predicted in (("time", TIME, PREDICTED), ("cost", COST, PREDICTED_COST)):
        regrets = _regrets(rows, figure, predicted)
        worst = exactly(max(regrets) if regrets else math.nan)
        yield Claim(f"the choice over the best in {what}, worst seed", worst, most=1.1, bound=1.0)


def _both(rows: Rows, workers: int, examples: int, figure: str, other: str) -> Iterator[tuple[float, float]]:
    cell, arm = f"{workers} workers", f"{examples} examples a step"
    mine, its = rows.values(cell, arm, figure), rows.values(cell, arm, other)
    yield from ((mine[seed], its[seed]) for seed in mine)


def _regrets(rows: Rows, figure: str, predicted: str) -> list[float]:
    """By seed, what was chosen by the prediction over the best."""
    places = list(product(WORKERS, EXAMPLES))
    by_place = [list(_both(rows, *place, predicted, figure)) for place in places]
    found = []
    for of_seed in zip(*by_place, strict=True):
        chosen = min(of_seed)[1]
        found.append(chosen / min(actual for _, actual in of_seed))
    return found


EXPERIMENTS = (Experiment("workers", "How many workers, and how many examples a step", 1, _works, _claims, TIME),)
