"""The section on the factors that explain step times among all timed strategies."""

from functools import partial

from autosync.report.blocks import Block, Note, Picture, Table, TableRow, numbers, texts
from autosync.report.findings import Findings
from autosync.report.importance import FEWEST, Importance
from autosync.report.numbers import NOTHING, percent, percent_interval
from autosync.report.pictures.worths import draw_importances
from autosync.words.quantities import count_of

WEAK = 0.1


def importance_blocks(findings: Findings) -> list[Block]:
    importances = findings.importances
    timed = sum(point.record.median_seconds is not None for point in findings.points)
    if not importances:
        why = (
            f"{count_of(timed, 'strategy')} {'was' if timed == 1 else 'were'} timed; at least {FEWEST} are needed to "
            f"say which factors matter."
            if timed < FEWEST
            else "No factor differs among the strategies that were timed."
        )
        return [Note(why)]
    whole = sum(importance.share for importance in importances)
    return [
        Picture(
            "importance",
            "The share of the variance of step time that each factor explains",
            f"The share of the variance of log step time that each factor explains, divided fairly among correlated "
            f"factors (Shapley values of R\N{SUPERSCRIPT TWO} of a quadratic regression: LMG, Lindeman et al. 1980); "
            f"in all {percent(whole)}. Bars are 95 % intervals of a bootstrap over strategies; the vertical line "
            f"is the share that a factor reaches by chance in 1 of 20 shuffles. Filled marks are beyond chance. "
            f"n = {timed} strategies, which the search chose: no random sample.",
            partial(draw_importances, importances),
        ),
        _table(importances),
    ]


def _table(importances: list[Importance]) -> Table:
    rows = [
        TableRow(
            (
                importance.factor,
                importance.about,
                percent(importance.share),
                percent_interval(importance.low, importance.high),
                percent(importance.chance),
                _direction(importance),
            ),
            strong=importance.is_beyond_chance,
        )
        for importance in importances
    ]
    return Table(
        (
            *texts("factor", "meaning"),
            *numbers("explains", "95 % interval", "by chance"),
            *texts("larger values go with"),
        ),
        rows,
        "The direction is Spearman's rank correlation with the step time, in brackets; it does not show causes.",
    )


def _direction(importance: Importance) -> str:
    if importance.direction is None:
        return NOTHING
    words = (
        "neither"
        if abs(importance.direction) < WEAK
        else "longer steps"
        if importance.direction > 0
        else "shorter steps"
    )
    return f"{words} ({importance.direction:+.2f})"
