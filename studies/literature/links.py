"""Choice of transport on shaped links: compares AR-Topk's formulas with timed steps, and lets a link's rate fall."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from autosync.baselines import BASELINES
from autosync.control.formula import WORTH, exchange_seconds
from autosync.errors import BenchError
from autosync.race.candidates import RaceSetting, compress_dense
from autosync.spec import Discipline, Fidelity, Probed, TimingProtocol, TopK
from studies.literature.experiment import Claim, Experiment, WorkItem, exactly
from studies.literature.formulas import WAYS
from studies.literature.live import LiveMeasurement, train_steps
from studies.literature.rows import FigureRow, FigureRows
from trials.fleet.lanes import Backend
from trials.phases import phases_here
from trials.trial import TrialRequest

MBITS, RATIOS = (20, 100, 400), (0.1, 0.01, 0.001)
PASS_SECONDS = 0.06
CLUSTER = "link: {mbit}mbit\npace: {{fixed: 60ms}}\nnodes:\n  - {{count: 4}}\n"
TIMED = TimingProtocol(5, 20)
STEP, FORMULA = "paced ms a step", "ms an exchange, by formula"
ROUNDS = 2
APART = 1.1
"""The least ratio of the second best to the best time by formula for which a winner counts."""

FALLING = "link: 400mbit\npace: {fixed: 60ms}\nnodes:\n  - {count: 4}\nchanges:\n  - {after: 140s, link: 20mbit}\n"
FALLS, KEPT, STEPS = "400 to 20 Mbit/s in mid-run", 0.005, 1300
FOLLOWED, BEFORE, AFTER, SAVED = (
    "steps until another transport",
    "paced ms a step, before",
    "paced ms a step, after",
    "ms that another transport saves then, by formula",
)
SETTLED = 20
"""Steps after a change of rate that are left out, because the time of the change is known only to a second."""


def _works(seeds: int) -> Iterator[WorkItem]:
    for mbit in MBITS:
        measurement = LiveMeasurement(CLUSTER.format(mbit=mbit), "vgg-mini", f"{__name__}:time_transports")
        for turn in range(min(seeds, ROUNDS)):
            yield WorkItem(f"{mbit} Mbit/s-{turn}", partial(measurement.rows, f"{mbit} Mbit/s", turn))
    falling = LiveMeasurement(FALLING, "characters", f"{__name__}:train_as_rate_falls")
    yield WorkItem("falls", partial(falling.rows, FALLS, 0))


def time_transports(backend: Backend, cell: str, turn: int) -> list[FigureRow]:
    """Time steps of every transport and ratio; every second turn has the reverse order."""
    base = BASELINES["all_reduce_25mb"](backend.model, backend.cluster)
    probed = RaceSetting(backend.model, backend.cluster, base).circumstances.probed
    rows = []
    for ratio in RATIOS:
        for arm, way in list(WAYS.items())[:: -1 if turn % 2 else 1]:
            strategy = compress_dense(base, backend.model, TopK(ratio, way.indices), way.algorithm)
            record = backend.run(TrialRequest(strategy, TIMED, seed=turn))
            if record.median_seconds is None:
                raise BenchError(f"{arm} at {cell}, ratio {ratio:g}: {record.reason}")
            where, exchange = f"{cell}, ratio {ratio:g}", exchange_seconds(way, ratio, len(base.replicas), probed)
            rows.append(
                FigureRow(where, arm, turn, STEP, 1e3 * record.median_seconds, "paced", backend.cluster.numbers)
            )
            rows.append(FigureRow(where, arm, turn, FORMULA, 1e3 * exchange, "none"))
    return rows


def train_as_rate_falls(backend: Backend, cell: str, seed: int) -> list[FigureRow]:
    """Train with the transport chosen by formula, while the rate of all links falls."""
    base = BASELINES["all_reduce_25mb"](backend.model, backend.cluster)
    probed = RaceSetting(backend.model, backend.cluster, base).circumstances.probed
    ways = tuple(WAYS.values())
    discipline = Discipline(fidelity=Fidelity((KEPT,), 1, transports=ways, probed=probed))
    record = train_steps(
        backend, replace(compress_dense(base, backend.model, TopK(KEPT)), discipline=discipline), STEPS, seed
    )
    assert record.decided is not None
    transports, seconds = record.decided.transport, record.step_seconds
    begins = record.started_at + record.total_seconds - sum(seconds) + np.cumsum([0.0, *seconds[:-1]])
    phases = phases_here(backend.cluster, begins.tolist())
    assert phases is not None, "the rate changes"
    fell = phases.index(1)
    changed = next((step for step in range(fell, STEPS) if transports[step] != transports[fell - 1]), None)
    low = Probed(probed.message_seconds, probed.gradient_seconds * MBITS[-1] / MBITS[0])
    exchanges = [exchange_seconds(way, KEPT, len(base.replicas), low) for way in ways]
    figures = {
        FOLLOWED: float("inf") if changed is None else float(changed - fell),
        BEFORE: 1e3 * statistics.median(seconds[:fell]),
        AFTER: 1e3 * statistics.median(seconds[fell + SETTLED :]),
        SAVED: 1e3 * (exchanges[transports[fell - 1]] - min(exchanges)),
    }
    numbers = record.cluster.numbers
    return [FigureRow(cell, "by formula", seed, figure, value, "paced", numbers) for figure, value in figures.items()]


def _claims(rows: FigureRows) -> Iterator[Claim]:
    cells = [cell for cell in rows.cells if cell != FALLS]
    for part, besides in (("step", 1e3 * PASS_SECONDS), ("exchange", 0.0)):
        clear = [cell for cell in cells if _has_clear_winner(rows, cell, besides)]
        right = [_regret(rows, cell) == 1 for cell in clear]
        share = statistics.fmean(right) if right else float("nan")
        least = 0.9 if part == "step" else -math.inf
        yield Claim(
            f"winner right in {len(clear)} cells whose {part}s differ by a tenth", exactly(share), least, bound=1
        )
    regrets = [_regret(rows, cell) for cell in cells]
    worst = max(regrets) if regrets else float("nan")
    yield Claim("the step of the formula's choice over the best one, worst cell", exactly(worst), bound=1.0)
    saved, after = (rows.values(FALLS, "by formula", figure).get(0, float("nan")) for figure in (SAVED, AFTER))
    share, late = saved / after, rows.values(FALLS, "by formula", FOLLOWED).get(0, float("nan"))
    yield Claim("share of a step that another transport would save after the rate has fallen", exactly(share))
    if not share < WORTH:
        yield Claim("steps until the transport follows the rate that has fallen", exactly(late), most=6)


def _means(rows: FigureRows, cell: str, figure: str) -> dict[str, float]:
    return {arm: statistics.fmean(rows.values(cell, arm, figure).values()) for arm in WAYS}


def _has_clear_winner(rows: FigureRows, cell: str, besides: float) -> bool:
    """Return whether the second best takes at least a tenth longer than the best, with `besides` milliseconds added."""
    first, second, *_ = sorted(milliseconds + besides for milliseconds in _means(rows, cell, FORMULA).values())
    return second > APART * first


def _regret(rows: FigureRows, cell: str) -> float:
    """Return the time of a step with the formula's choice divided by the time of the best step."""
    formula, step = _means(rows, cell, FORMULA), _means(rows, cell, STEP)
    return step[min(formula, key=lambda arm: formula[arm])] / min(step.values())


EXPERIMENTS = (Experiment("links", "AR-Topk's formulas on links that are shaped", 1, _works, _claims, STEP),)
