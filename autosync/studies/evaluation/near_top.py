"""The table of what counts in a search: order near the top, cell by cell, and how much of it is architecture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autosync.stats.tables import NOTHING, Table, percent
from autosync.studies.evaluation.cells import MeasuredCell, Measurement
from autosync.studies.evaluation.findings import EvaluationFindings, Subject, second_looks
from autosync.studies.evaluation.metrics import (
    BEST,
    FIRST,
    NEAR_TOP,
    Predictions,
    mean_of,
    pairs_in_order,
    pairwise_beyond_noise,
    pairwise_near_top,
    recall_of_best,
    regret_of_best,
    told_apart,
    told_apart_near_top,
)

ALONE = "replay"
"""The simulator shown beside the judged one, which is told what it says."""


class _Row(NamedTuple):
    """A cell's figures; NaN where there is nothing to tell them by."""

    name: str
    pairs: int
    judged: float
    alone: float
    again: float
    recall: float
    by_chance: float
    regret: float
    regret_again: float
    everywhere: float
    thumb: float
    share_alike: float
    alike: float

    @property
    def below(self) -> float:
        """How far the judged simulator is below what a second trial has, or below all in order where none tells."""
        ceiling = self.again if math.isfinite(self.again) else 1.0
        return ceiling - self.judged if math.isfinite(self.judged) else -math.inf


def near_top_table(findings: EvaluationFindings) -> Table:
    judged = findings.simulators[0]
    rows = sorted(_rows(findings, judged), key=lambda row: (-row.below, row.name))
    about = (
        f"Cells in order of what {judged} lacks of a second trial near the top, worst first; means over seeds. *Near "
        f"the top* are test strategies within {NEAR_TOP:.0%} of the cell's fastest; *pairs*: so many of them differ "
        "beyond the noise. *Again*: a second trial as the prediction of the first, by the few strategies timed twice. "
        f"*Recall*: share of the {BEST} fastest among the {FIRST} that {judged} says are, and in brackets what drawing "
        "has. *Regret*: of its first choice. Then all pairs, near the top or not: as *architecture* alone puts them, "
        "each strategy predicted to take what those of its architecture do that are not for testing (a tie counts "
        f"half), and as {judged} does; last, the share of pairs that have one architecture, and {judged}'s order among "
        "these alone."
    )
    header = (
        "model@cluster",
        "pairs near the top",
        judged,
        ALONE,
        "again",
        "recall",
        "regret",
        "regret again",
        "all pairs: architecture",
        judged,
        "of one architecture",
        f"{judged} among these",
    )
    return Table("near_top", "Near the top", about, header, [_texts(row) for row in rows])


def _texts(row: _Row) -> tuple[str, ...]:
    recall = NOTHING if math.isnan(row.recall) else f"{row.recall:.2f} ({row.by_chance:.2f})"
    return (
        row.name,
        str(row.pairs),
        *map(_share, (row.judged, row.alone, row.again)),
        recall,
        *(percent(each) if math.isfinite(each) else NOTHING for each in (row.regret, row.regret_again)),
        *map(_share, (row.thumb, row.everywhere)),
        percent(row.share_alike) if math.isfinite(row.share_alike) else NOTHING,
        _share(row.alike),
    )


def _share(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else NOTHING


def _rows(findings: EvaluationFindings, judged: str) -> list[_Row]:
    by_judged = findings.predictions(Subject("accuracy", judged))
    by_replay = findings.predictions(Subject("accuracy", ALONE))
    return [
        _row(cell, by_judged[cell.name], by_replay.get(cell.name, ()))
        for cell in findings.cells
        if cell.name in by_judged
    ]


def _row(cell: MeasuredCell, judged: Sequence[Predictions], alone: Sequence[Predictions]) -> _Row:
    again = second_looks(cell)
    alike, apart = _of_one_architecture(cell.tested), np.abs(told_apart(judged[0]))
    count = len(cell.tested)
    return _Row(
        name=cell.name,
        pairs=int(np.count_nonzero(told_apart_near_top(judged[0])) // 2),
        judged=mean_of(pairwise_near_top, judged),
        alone=mean_of(pairwise_near_top, alone),
        again=mean_of(pairwise_near_top, again),
        recall=mean_of(recall_of_best, judged),
        by_chance=FIRST / count,
        regret=mean_of(regret_of_best, judged),
        regret_again=mean_of(regret_of_best, again),
        everywhere=mean_of(pairwise_beyond_noise, judged),
        thumb=float(pairwise_beyond_noise(_by_architecture(cell, judged[0]))),
        share_alike=float((apart * alike).sum() / apart.sum()) if apart.any() else math.nan,
        alike=mean_of(lambda each: pairs_in_order(each, alike), judged),
    )


def _by_architecture(cell: MeasuredCell, measured: Predictions) -> Predictions:
    """The mean log seconds of its architecture as each test strategy's prediction; of all, for one seen in no other."""
    known: dict[str, list[float]] = {}
    for each in cell.part("train", "validation"):
        known.setdefault(each.architecture, []).append(math.log(each.seconds))
    everything = float(np.mean([value for own in known.values() for value in own]))
    predicted = [
        float(np.mean(known[each.architecture])) if each.architecture in known else everything for each in cell.tested
    ]
    return Predictions(np.array(predicted), measured.measured, measured.errors)


def _of_one_architecture(tested: Sequence[Measurement]) -> npt.NDArray[np.bool_]:
    """Whether both of a pair have one architecture, (n, n)."""
    names = np.array([each.architecture for each in tested])
    return np.asarray(names[:, None] == names[None, :])
