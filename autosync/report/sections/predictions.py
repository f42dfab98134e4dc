"""Predicted against measured: a direct look at how well the simulator estimates step times."""

from collections.abc import Sequence
from functools import partial

from autosync.report.blocks import Block, Note, Picture, Row, Table, numbers, texts
from autosync.report.findings import Findings, Point
from autosync.report.numbers import percent, percent_interval
from autosync.report.pictures.predictions import draw_predictions
from autosync.report.style import look_of
from autosync.stats.estimate import Estimate
from autosync.words.cluster import predicted_for
from autosync.words.strategy import ARCHITECTURES


def predictions_blocks(findings: Findings) -> list[Block]:
    known = [each for each in findings.points if each.record.predicted_seconds and each.record.median_seconds]
    if not known:
        return [Note("Nothing was predicted before it was timed: this searcher asks no simulator.")]
    picture = Picture(
        "predictions",
        "Predicted against measured step times, and their ratio in the order of trials",
        f"What the simulator said of each strategy before it was timed. On the dashed line it was right. "
        f"Horizontal bars are 95 % intervals of the measured median over steps. Hollow marks are baselines, "
        f"of which the first were predicted before anything was measured here. "
        f"{_of_phases(findings, known)}n = {len(known)} strategies.",
        partial(draw_predictions, known),
    )
    if not findings.qualities:
        few = "Fewer than three strategies of a kind have both figures: too few to say how good they are."
        return [picture, Note(few)]
    rows = [
        Row(
            (name, str(each.strategies), *_cells(each.mape), *_cells(each.pairwise)),
            colour=look_of(name).colour.name if name in ARCHITECTURES else "",
        )
        for name, each in findings.qualities.items()
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
    """Where links change, for which phase predictions are, and how many of the `known` were timed after it."""
    said = predicted_for(findings.run.cluster)
    if not said:
        return ""
    later = sum(any(each.record.phases or ()) for each in known)
    return f"{said} {later} of these were timed after phase 0, in full or in part. "


def _cells(estimate: Estimate) -> tuple[str, str]:
    return percent(estimate.value), percent_interval(estimate.low, estimate.high)
