"""The section on predicted against measured step times: how well the simulator estimates them."""

from collections.abc import Sequence
from functools import partial

from autosync.report.blocks import Block, Note, Picture, Table, TableRow, numbers, texts
from autosync.report.findings import Findings, Point
from autosync.report.numbers import percent, percent_interval
from autosync.report.pictures.predictions import draw_predictions
from autosync.report.style import look_of
from autosync.stats.estimate import Estimate
from autosync.words.cluster import prediction_phase
from autosync.words.strategy import ARCHITECTURES


def predictions_blocks(findings: Findings) -> list[Block]:
    known = [point for point in findings.points if point.record.predicted_seconds and point.record.median_seconds]
    if not known:
        return [Note("No strategy was predicted before it was timed, because this searcher uses no simulator.")]
    picture = Picture(
        "predictions",
        "Predicted against measured step times, and their ratio in the order of trials",
        f"The simulator's prediction for each strategy before it was timed; on the dashed line, it is exact. "
        f"Horizontal bars are 95 % intervals of the measured median over steps. Hollow marks are baselines; "
        f"the first of them were predicted before any measurement of this run. "
        f"{_of_phases(findings, known)}n = {len(known)} strategies.",
        partial(draw_predictions, known),
    )
    if not findings.qualities:
        few = "Fewer than three strategies of a kind have both figures, which is too few to judge predictions."
        return [picture, Note(few)]
    rows = [
        TableRow(
            (name, str(quality.strategies), *_cells(quality.mape), *_cells(quality.pairwise)),
            colour=look_of(name).colour.name if name in ARCHITECTURES else "",
        )
        for name, quality in findings.qualities.items()
    ]
    titles = ("n", "MAPE", "95 % interval", "pairs in order", "95 % interval")
    table = Table(
        (*texts("strategies"), *numbers(*titles)),
        rows,
        "MAPE is the mean of |predicted / measured - 1|. Pairs in order is the share of pairs of strategies whose "
        "predictions are in the order of their measured times (50 % is chance). Intervals are of a bootstrap over "
        "strategies.",
    )
    return [picture, table]


def _of_phases(findings: Findings, known: Sequence[Point]) -> str:
    """Sentences on the phase of predictions, and on `known` points timed after it; empty unless links change."""
    said = prediction_phase(findings.run.cluster)
    if not said:
        return ""
    later = sum(any(point.record.phases or ()) for point in known)
    return f"{said} {later} of these were timed after phase 0, in full or in part. "


def _cells(estimate: Estimate) -> tuple[str, str]:
    return percent(estimate.value), percent_interval(estimate.low, estimate.high)
