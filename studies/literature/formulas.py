"""Choice of transport: compares AR-Topk's formulas with its published table, and changes a link's rate in mid-run."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from autosync.control import controller_of
from autosync.control.formula import exchange_seconds
from autosync.spec import Discipline, Fidelity, Probed, StepReport, Strategy, TopKTransport
from studies.literature.experiment import Claim, Experiment, WorkItem, exactly
from studies.literature.rows import FigureRow, FigureRows

WAYS = {
    "all-gather": TopKTransport("own"),
    "STAR, ring": TopKTransport("star", "ring"),
    "STAR, tree": TopKTransport("star", "tree"),
}
MILLISECONDS, PRINTED, STEPS_LATE = "ms an exchange", "ms an exchange, as printed", "steps until another transport"

RESNET18, RESNET50 = 11_689_512, 25_557_032
TABLE = {
    ("ResNet18", RESNET18, 10): {0.1: (54, 35, 43.2), 0.01: (7.66, 18.1, 12.2), 0.001: (3.28, 16.7, 9)},
    ("ResNet18", RESNET18, 1): {0.1: (526.3, 194.7, 345.6), 0.01: (51.93, 34.1, 41.9), 0.001: (8.86, 19.5, 12.8)},
    ("ResNet50", RESNET50, 10): {0.1: (115.1, 52.9, 83.4), 0.01: (14.35, 20.3, 15.9), 0.001: (4.65, 18.1, 10)},
}
"""FigureRows of table VI (Tyagi and Swany 2023): (model, parameters, Gbit/s) to the milliseconds of `WAYS` by ratio."""

PARAMETERS, PASS_SECONDS, BEFORE = 1_000_000, 0.06, 30
FALLS = {"400 to 20 Mbit/s": (400, 20, 0.01), "20 to 400 Mbit/s": (20, 400, 0.01), "100 to 20 Mbit/s": (100, 20, 0.1)}
"""Links' rate in Mbit/s before and after the change, and the ratio kept by top-k."""


def _works(_seeds: int) -> Iterator[WorkItem]:
    yield WorkItem("table", _table)
    yield WorkItem("two", _two)
    yield WorkItem("falls", _falls)


def _table() -> list[FigureRow]:
    rows = []
    for (model, parameters, gbit), by_ratio in TABLE.items():
        probed = Probed(1e-3, 32 * parameters / (gbit * 1e9))
        for ratio, printed in by_ratio.items():
            cell = f"{model}, {gbit} Gbit/s, ratio {ratio:g}"
            for (arm, way), milliseconds in zip(WAYS.items(), printed, strict=True):
                rows.append(
                    FigureRow(cell, arm, 0, MILLISECONDS, 1e3 * exchange_seconds(way, ratio, 8, probed), "none")
                )
                rows.append(FigureRow(cell, arm, 0, PRINTED, milliseconds, "none"))
    return rows


def _two() -> list[FigureRow]:
    return [
        FigureRow(f"two nodes, {mbit} Mbit/s, ratio {ratio:g}", arm, 0, MILLISECONDS, 1e3 * seconds, "none")
        for mbit in (20, 100, 400)
        for ratio in (0.1, 0.01, 0.001)
        for arm, way in WAYS.items()
        for seconds in [exchange_seconds(way, ratio, 2, _links(mbit))]
    ]


def _falls() -> list[FigureRow]:
    """Run a controller where exchanges take the formulas' times, on links whose rate changes."""
    rows = []
    for cell, (before, after, ratio) in FALLS.items():
        ways = tuple(WAYS.values())
        fidelity = Fidelity((ratio,), 1, transports=ways, probed=_links(before))
        names = tuple(f"node{number}/cpu:0" for number in range(4))
        controller = controller_of(Strategy(names, (), Discipline(fidelity=fidelity)))
        assert controller is not None
        chosen = []
        for step in range(3 * BEFORE):
            decision = controller.decide()
            links = _links(before if step < BEFORE else after)
            seconds = PASS_SECONDS + exchange_seconds(ways[decision.transport or 0], ratio, 4, links)
            controller.observe(StepReport(decision, 1.0, seconds=seconds))
            chosen.append(decision.transport)
        times = [exchange_seconds(way, ratio, 4, _links(after)) for way in ways]
        best = times.index(min(times))
        late = next((step - BEFORE for step in range(BEFORE, len(chosen)) if chosen[step] == best), float("inf"))
        rows.append(FigureRow(cell, "by formula", 0, STEPS_LATE, late, "virtual"))
    return rows


def _links(mbit: float) -> Probed:
    return Probed(1e-3, 32 * PARAMETERS / (mbit * 1e6))


def _claims(rows: FigureRows) -> Iterator[Claim]:
    wrong, right = [], 0
    table = [cell for cell in rows.cells if cell.startswith("ResNet")]
    for cell in table:
        predicted = {arm: rows.values(cell, arm, MILLISECONDS)[0] for arm in WAYS}
        printed = {arm: rows.values(cell, arm, PRINTED)[0] for arm in WAYS}
        right += min(predicted, key=lambda arm: predicted[arm]) == min(printed, key=lambda arm: printed[arm])
        wrong += [abs(predicted[arm] - printed[arm]) / printed[arm] for arm in WAYS]
    yield Claim("winners of the table's rows", exactly(right), len(table), len(table), len(table))
    yield Claim("median error of its times", exactly(statistics.median(wrong) if wrong else float("nan")), most=0.025)
    two = [cell for cell in rows.cells if cell.startswith("two")]
    gathers = sum(
        rows.values(cell, "all-gather", MILLISECONDS)[0] <= min(rows.values(cell, arm, MILLISECONDS)[0] for arm in WAYS)
        for cell in two
    )
    yield Claim("two nodes: to gather all is the fastest", exactly(gathers), len(two), len(two), len(two))
    for cell in FALLS:
        late = next(iter(rows.values(cell, "by formula", STEPS_LATE).values()), float("nan"))
        yield Claim(f"steps until the transport follows, {cell}", exactly(late), most=6)


EXPERIMENTS = (
    Experiment("ar-topk", "AR-Topk's formulas and what follows from them", 1, _works, _claims, MILLISECONDS),
)
