"""The table of accuracy near the top, which matters in a search: by cell, and compared with architecture alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autosync.pretraining.cells import MeasuredCell, Measurement
from autosync.pretraining.metrics import (
    BEST,
    FIRST,
    NEAR_TOP,
    Predictions,
    mean_of,
    order_beyond_noise,
    order_near_top,
    pairs_in_order,
    pairwise_beyond_noise,
    pairwise_near_top,
    recall_of_best,
    regret_of_best,
)
from autosync.stats.tables import NOTHING, TextTable, percent
from studies.evaluation.findings import EvaluationFindings, PredictionKey, second_looks

ALONE = "replay"
"""The simulator shown next to the judged one, which uses this simulator's figures as inputs."""


class _Row(NamedTuple):
    """A cell's figures; NaN if a figure cannot be computed."""

    name: str
    pairs: int
    """Pairs near the top that differ beyond the noise."""
    judged: float
    """Pairwise accuracy near the top of the judged simulator."""
    alone: float
    """The same of the simulator `ALONE`."""
    again: float
    """The same of a second trial as the prediction."""
    recall: float
    by_chance: float
    """The recall of random choice."""
    regret: float
    regret_again: float
    """The regret of a second trial as the prediction."""
    everywhere: float
    """Pairwise accuracy of the judged simulator on all pairs."""
    thumb: float
    """Pairwise accuracy of architecture alone on all pairs."""
    share_alike: float
    """Share of pairs with one architecture."""
    alike: float
    """Pairwise accuracy of the judged simulator on pairs with one architecture."""

    @property
    def below(self) -> float:
        """The accuracy of a second trial, or 1 without one, minus that of the judged simulator."""
        ceiling = self.again if math.isfinite(self.again) else 1.0
        return ceiling - self.judged if math.isfinite(self.judged) else -math.inf


def near_top_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of accuracy near the top, by cell."""
    judged = findings.simulators[0]
    rows = sorted(_rows(findings, judged), key=lambda row: (-row.below, row.name))
    about = (
        f"Cells by the accuracy of {judged} near the top compared with a second trial, worst first; means over seeds. "
        f"*Near the top* are test strategies within {NEAR_TOP:.0%} of the cell's fastest; *pairs*: the number of pairs "
        "of these that differ beyond the noise. *Again*: a second trial as the prediction of the first, for the few "
        f"strategies timed twice. *Recall*: share of the {BEST} fastest strategies among the {FIRST} predicted fastest "
        f"by {judged}, and in brackets the recall of random choice. *Regret*: of the first choice. The next columns "
        "are over all pairs: by *architecture* alone, where a strategy's prediction is the mean of its architecture "
        f"outside the test part (a tie counts half), and by {judged}; last, the share of pairs with one architecture, "
        f"and the accuracy of {judged} on these pairs."
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
    return TextTable("near_top", "Near the top", about, header, [_texts(row) for row in rows])


def _texts(row: _Row) -> tuple[str, ...]:
    recall = NOTHING if math.isnan(row.recall) else f"{row.recall:.2f} ({row.by_chance:.2f})"
    return (
        row.name,
        str(row.pairs),
        *map(_share, (row.judged, row.alone, row.again)),
        recall,
        *(percent(regret) if math.isfinite(regret) else NOTHING for regret in (row.regret, row.regret_again)),
        *map(_share, (row.thumb, row.everywhere)),
        percent(row.share_alike) if math.isfinite(row.share_alike) else NOTHING,
        _share(row.alike),
    )


def _share(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else NOTHING


def _rows(findings: EvaluationFindings, judged: str) -> list[_Row]:
    by_judged = findings.predictions(PredictionKey("accuracy", judged))
    by_replay = findings.predictions(PredictionKey("accuracy", ALONE))
    return [
        _row(cell, by_judged[cell.name], by_replay.get(cell.name, ()))
        for cell in findings.cells
        if cell.name in by_judged
    ]


def _row(cell: MeasuredCell, judged: Sequence[Predictions], alone: Sequence[Predictions]) -> _Row:
    again = second_looks(cell)
    alike, apart = _of_one_architecture(cell.test_measurements), np.abs(order_beyond_noise(judged[0]))
    count = len(cell.test_measurements)
    return _Row(
        name=cell.name,
        pairs=int(np.count_nonzero(order_near_top(judged[0])) // 2),
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
        alike=mean_of(lambda predictions: pairs_in_order(predictions, alike), judged),
    )


def _by_architecture(cell: MeasuredCell, measured: Predictions) -> Predictions:
    """Predict each test strategy by the mean log seconds of its architecture; unseen architectures get the overall
    mean."""
    known: dict[str, list[float]] = {}
    for measurement in cell.part("train", "validation"):
        known.setdefault(measurement.architecture, []).append(math.log(measurement.seconds))
    everything = float(np.mean([value for logs in known.values() for value in logs]))
    predicted = [
        float(np.mean(known[measurement.architecture])) if measurement.architecture in known else everything
        for measurement in cell.test_measurements
    ]
    return Predictions(np.array(predicted), measured.measured, measured.errors)


def _of_one_architecture(tested: Sequence[Measurement]) -> npt.NDArray[np.bool_]:
    """Return whether the two strategies of a pair have the same architecture, (n, n)."""
    names = np.array([measurement.architecture for measurement in tested])
    return np.asarray(names[:, None] == names[None, :])
