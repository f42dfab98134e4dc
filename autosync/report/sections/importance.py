"""The factors that explain step times among all that was timed."""

from functools import partial

from autosync.report.blocks import Block, Note, Picture, Row, Table, numbers, texts
from autosync.report.findings import Findings
from autosync.report.importance import FEWEST, Importance
from autosync.report.numbers import NOTHING, percent, percent_interval
from autosync.report.pictures.worths import draw_importances
from autosync.words.quantities import counted

WEAK = 0.1


def importance_blocks(findings: Findings) -> list[Block]:
    found = findings.importances
    timed = sum(each.record.median_seconds is not None for each in findings.points)
    if not found:
        why = (
            f"{counted(timed, 'strategy')} {'was' if timed == 1 else 'were'} timed; at least {FEWEST} are needed to "
            f"say which factors matter."
            if timed < FEWEST
            else "No factor differs among the strategies that were timed."
        )
        return [Note(why)]
    whole = sum(each.share for each in found)
    return [
        Picture(
            "importance",
            "The share of the variance of step time that each factor explains",
            f"How much of the variance of log step time each factor explains, fairly divided among factors that go "
            f"together (Shapley values of R\N{SUPERSCRIPT TWO} of a quadratic regression: LMG, Lindeman et al. 1980); "
            f"together {percent(whole)}. Bars are 95 % intervals of a bootstrap over strategies; the upright line is "
            f"what a factor reaches by chance in 1 of 20 shuffles. Filled: beyond chance. n = {timed} strategies, "
            f"chosen by the search and no random sample.",
            partial(draw_importances, found),
        ),
        _table(found),
    ]


def _table(found: list[Importance]) -> Table:
    rows = [
        Row(
            (
                each.factor,
                each.about,
                percent(each.share),
                percent_interval(each.low, each.high),
                percent(each.chance),
                _direction(each),
            ),
            strong=each.is_beyond_chance,
        )
        for each in found
    ]
    return Table(
        (
            *texts("factor", "what it is"),
            *numbers("explains", "95 % interval", "by chance"),
            *texts("more of it goes with"),
        ),
        rows,
        "The direction is Spearman's rank correlation with the step time, in brackets; it says nothing of causes.",
    )


def _direction(each: Importance) -> str:
    if each.direction is None:
        return NOTHING
    words = "neither" if abs(each.direction) < WEAK else "longer steps" if each.direction > 0 else "shorter steps"
    return f"{words} ({each.direction:+.2f})"
