"""By which transport on real links: AR-Topk's formulas beside steps that were timed, and a rate that falls."""

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
from autosync.race.candidates import Setting, compressed
from autosync.spec import Discipline, Fidelity, Probed, TimingProtocol, TopK
from autosync.studies.literature.experiment import Claim, Experiment, Work, exactly
from autosync.studies.literature.formulas import WAYS
from autosync.studies.literature.live import Errand, taken
from autosync.studies.literature.rows import Row, Rows
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
"""How many times as long the second best is to take by formula, where a winner is told."""

FALLING = "link: 400mbit\npace: {fixed: 60ms}\nnodes:\n  - {count: 4}\nchanges:\n  - {after: 140s, link: 20mbit}\n"
FALLS, KEPT, STEPS = "400 to 20 Mbit/s in mid-run", 0.005, 1300
FOLLOWED, BEFORE, AFTER, SAVED = (
    "steps until another transport",
    "paced ms a step, before",
    "paced ms a step, after",
    "ms that another transport saves then, by formula",
)
SETTLED = 20
"""Steps after a change of rate that are looked at no more closely: when it came is known to a second."""


def _works(seeds: int) -> Iterator[Work]:
    for mbit in MBITS:
        errand = Errand(CLUSTER.format(mbit=mbit), "vgg-mini", f"{__name__}:timed")
        for turn in range(min(seeds, ROUNDS)):
            yield Work(f"{mbit} Mbit/s-{turn}", partial(errand.rows, f"{mbit} Mbit/s", turn))
    falling = Errand(FALLING, "characters", f"{__name__}:fallen")
    yield Work("falls", partial(falling.rows, FALLS, 0))


def timed(backend: Backend, cell: str, turn: int) -> list[Row]:
    """Steps of every transport and ratio; the other way round in every other turn."""
    base = BASELINES["all_reduce_25mb"](backend.model, backend.cluster)
    probed = Setting(backend.model, backend.cluster, base).circumstances.probed
    rows = []
    for ratio in RATIOS:
        for arm, way in list(WAYS.items())[:: -1 if turn % 2 else 1]:
            strategy = compressed(base, backend.model, TopK(ratio, way.indices), way.algorithm)
            record = backend.run(TrialRequest(strategy, TIMED, seed=turn))
            if record.median_seconds is None:
                raise BenchError(f"{arm} at {cell}, ratio {ratio:g}: {record.reason}")
            where, exchange = f"{cell}, ratio {ratio:g}", exchange_seconds(way, ratio, len(base.replicas), probed)
            rows.append(Row(where, arm, turn, STEP, 1e3 * record.median_seconds, "paced", backend.cluster.numbers))
            rows.append(Row(where, arm, turn, FORMULA, 1e3 * exchange, "none"))
    return rows


def fallen(backend: Backend, cell: str, seed: int) -> list[Row]:
    """Training whose transport is chosen by formula, while the rate of all links falls."""
    base = BASELINES["all_reduce_25mb"](backend.model, backend.cluster)
    probed = Setting(backend.model, backend.cluster, base).circumstances.probed
    ways = tuple(WAYS.values())
    discipline = Discipline(fidelity=Fidelity((KEPT,), 1, transports=ways, probed=probed))
    record = taken(backend, replace(compressed(base, backend.model, TopK(KEPT)), discipline=discipline), STEPS, seed)
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
    return [Row(cell, "by formula", seed, figure, value, "paced", numbers) for figure, value in figures.items()]


def _claims(rows: Rows) -> Iterator[Claim]:
    cells = [cell for cell in rows.cells if cell != FALLS]
    for what, besides in (("step", 1e3 * PASS_SECONDS), ("exchange", 0.0)):
        told = [cell for cell in cells if _tells(rows, cell, besides)]
        right = [_regret(rows, cell) == 1 for cell in told]
        share = statistics.fmean(right) if right else float("nan")
        least = 0.9 if what == "step" else -math.inf
        yield Claim(
            f"winner right in {len(told)} cells whose {what}s differ by a tenth", exactly(share), least, bound=1
        )
    regrets = [_regret(rows, cell) for cell in cells]
    worst = max(regrets) if regrets else float("nan")
    yield Claim("the step of the formula's choice over the best one, worst cell", exactly(worst), bound=1.0)
    saved, after = (rows.values(FALLS, "by formula", figure).get(0, float("nan")) for figure in (SAVED, AFTER))
    share, late = saved / after, rows.values(FALLS, "by formula", FOLLOWED).get(0, float("nan"))
    yield Claim("what another transport would save once the rate has fallen, of a step", exactly(share))
    if not share < WORTH:
        yield Claim("steps until the transport follows the rate that has fallen", exactly(late), most=6)


def _means(rows: Rows, cell: str, figure: str) -> dict[str, float]:
    return {arm: statistics.fmean(rows.values(cell, arm, figure).values()) for arm in WAYS}


def _tells(rows: Rows, cell: str, besides: float) -> bool:
    """Whether the second best is to take over a tenth longer than the best, with so many milliseconds besides."""
    first, second, *_ = sorted(each + besides for each in _means(rows, cell, FORMULA).values())
    return second > APART * first


def _regret(rows: Rows, cell: str) -> float:
    """What a step of the formula's choice takes over the best one."""
    formula, step = _means(rows, cell, FORMULA), _means(rows, cell, STEP)
    return step[min(formula, key=lambda arm: formula[arm])] / min(step.values())


EXPERIMENTS = (Experiment("links", "AR-Topk's formulas on links that are shaped", 1, _works, _claims, STEP),)
