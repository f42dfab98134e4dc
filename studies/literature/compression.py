"""Gradient compression: fixed ratios, GraVAC, Accordion and AR-Topk's knee."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosync.space import AR_TOPK_RATIOS, AR_TOPK_WAYS, GRAVAC_RATIOS
from autosync.spec import Discipline, Fidelity, Probed, Target
from studies.literature.experiment import MOST_TRAINED, Claim, Experiment, WorkItem, mean_ratio, work_per_seed
from studies.literature.rows import FigureRow, FigureRows
from studies.literature.trained import (
    NODES,
    PASS_SECONDS,
    SECONDS,
    STEADY,
    STEPS,
    Arm,
    World,
    rows_of_run,
    to_target,
    train,
    volume,
)

WORLDS = {
    f"an exchange takes {ratio:g} passes": World("digits", 16, (STEADY,) * NODES, ratio * PASS_SECONDS)
    for ratio in (7.5, 1.0)
}
TARGET = Target("loss", 0.2, every=10, steps=3000)
SENT = "dense gradients sent"
DENSE = "dense"
FIXED = ("top-k 0.1", "top-k 0.01", "top-k 0.001")


def _arms(world: World) -> dict[str, Arm]:
    def arm_with(fidelity: Fidelity) -> Arm:
        return Arm(Discipline(fidelity=fidelity), 0.1)

    probed = Probed(1e-3, world.exchange_seconds * 2 / 3)  # a ring of four sends 1.5 times the gradient
    return {
        DENSE: Arm(Discipline()),
        **{name: arm_with(Fidelity((float(name.split()[1]),), 1)) for name in FIXED},
        "GraVAC 0.9": arm_with(Fidelity(GRAVAC_RATIOS, 25, keeps=0.9)),
        "GraVAC 0.7": arm_with(Fidelity(GRAVAC_RATIOS, 25, keeps=0.7)),
        "Accordion": arm_with(Fidelity((0.1, 0.01), 25, changes=0.5)),
        "AR-Topk knee": arm_with(Fidelity(AR_TOPK_RATIOS, 1, transports=AR_TOPK_WAYS, probed=probed, time_weight=0.6)),
    }


def _works(seeds: int) -> Iterator[WorkItem]:
    return work_per_seed(WORLDS, min(seeds, MOST_TRAINED), _rows)


def _rows(cell: str, seed: int) -> list[FigureRow]:
    rows = []
    for name, arm in _arms(WORLDS[cell]).items():
        record = train(WORLDS[cell], arm, seed, TARGET)
        ratios = record.decided.kept if record.decided else ()
        figures = {SECONDS: to_target(record), STEPS: float(record.steps) if to_target(record) < math.inf else math.inf}
        figures[SENT] = sum(map(volume, ratios)) if ratios else float(record.steps)
        rows += rows_of_run(cell, name, seed, figures)
    return rows


def _claims(rows: FigureRows) -> Iterator[Claim]:
    for cell in rows.cells:
        for arm, most in (("GraVAC 0.9", 1.05), ("GraVAC 0.7", 1.2)):
            yield Claim(
                f"{arm}: steps over dense ones, {cell}", mean_ratio(rows.ratios(cell, arm, DENSE, STEPS)), most=most
            )
        yield Claim(
            f"GraVAC 0.7: volume over dense, {cell}", mean_ratio(rows.ratios(cell, "GraVAC 0.7", DENSE, SENT)), most=0.7
        )
        fixed = [mean_ratio(rows.ratios(cell, DENSE, arm, SECONDS)) for arm in FIXED]
        best = FIXED[max(range(len(FIXED)), key=lambda place: fixed[place].value if fixed[place].value > 0 else 0.0)]
        for arm in ("GraVAC 0.9", "GraVAC 0.7", "Accordion", "AR-Topk knee"):
            yield Claim(
                f"{arm} over the best fixed ratio, {best}, {cell}", mean_ratio(rows.ratios(cell, best, arm, SECONDS))
            )


EXPERIMENTS = (Experiment("compression", "How much of a gradient to send", 1, _works, _claims, SECONDS),)
