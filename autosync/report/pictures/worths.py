"""Draws the worths of decisions, and the importance of factors: rows of dots with intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from autosync.report.blocks import Drawing
from autosync.report.importance import Importance
from autosync.report.pictures.axes import dot, figure_of, legend_below, rows_axis, rows_inches, yardstick_line
from autosync.report.style import INK, MUTED, Look, Width

LETTERS_AN_INCH = 15


def draw_worths(worths: Sequence[Mapping[str, Any]], width: Width) -> Drawing:
    """Draw the step time without each decision over the winner's; a decision pays if its ratio is above 1."""
    figure = figure_of(width, rows_inches(len(worths), above=True) + 0.1)
    axes = figure.subplots()
    for row, worth in enumerate(worths):
        low, high = worth["worth_interval"]
        pays_or_costs = low > 1 or high < 1
        dot(axes, worth["worth"], (low, high), row, Look(INK if pays_or_costs else MUTED, "o"), pays_or_costs)
    rows_axis(axes, [_shorten(worth["label"], width) for worth in worths], above=True)
    yardstick_line(axes, 1.0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.set_xlabel("step time without the decision / the winner's")
    return Drawing(figure)


def draw_importances(importances: Sequence[Importance], width: Width) -> Drawing:
    """Draw shares of the variance, each with the share that is reached by chance."""
    figure = figure_of(width, rows_inches(len(importances), width.is_narrow) + 0.35)
    axes = figure.subplots()
    for row, importance in enumerate(importances):
        sure = importance.is_beyond_chance
        axes.plot([importance.chance] * 2, [row - 0.26, row + 0.26], color=MUTED.light, linewidth=1.4)
        dot(axes, importance.share, (importance.low, importance.high), row, Look(INK if sure else MUTED, "o"), sure)
    rows_axis(axes, [importance.factor for importance in importances], width.is_narrow)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.set_xlabel("share of the variance of log step time")
    by_chance = Line2D([], [], linestyle="", marker="|", markersize=9, color=MUTED.light, label="reached by chance")
    legend_below(figure, [by_chance], width)
    return Drawing(figure)


def _shorten(label: str, width: Width) -> str:
    longest = int(LETTERS_AN_INCH * width.inches)
    return label if len(label) <= longest else label[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"
