"""Baselines and finalists: medians with intervals, and the finals round by round."""

import statistics
from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import MaxNLocator

from autosync.report.blocks import Drawing
from autosync.report.pictures.axes import (
    MILLI,
    dot,
    figure_of,
    legend_below,
    log_axis,
    look_handle,
    milliseconds_a_step,
    padded,
    rows_axis,
    rows_inches,
    yardstick_line,
)
from autosync.report.style import ARCHITECTURE_LOOKS, FAINT, PAPER, Width, look_of
from autosync.runs import Contender
from autosync.spec import RuntimeRecord, median_interval
from autosync.words.strategy import ARCHITECTURES

DOTTED: tuple[Any, ...] = ((0, (1, 1.5)), (0, (4, 1.2, 1, 1.2)), (0, (1, 3)))
"""Line styles of finalists that are no baselines, in turn."""


def draw_contenders(
    contenders: Sequence[Contender], winner: str | None, yardstick_seconds: float | None, width: Width
) -> Drawing:
    """Every contender that was timed, finalists first, each kind fastest first; hollow if by one trial only."""
    rows = [each for each in contenders if each.median_seconds is not None]
    finalists = sum(each.remeasured for each in rows)
    figure = figure_of(width, rows_inches(len(rows), width.is_narrow) + 0.35)
    axes = figure.subplots()
    for row, each in enumerate(rows):
        low, high = each.interval or (each.median_seconds or 0.0,) * 2
        ends = low * MILLI, high * MILLI
        dot(axes, (each.median_seconds or 0.0) * MILLI, ends, row, look_of(each.architecture), each.remeasured)
    won = [row for row, each in enumerate(rows) if each.digest == winner]
    rows_axis(axes, [each.name for each in rows], width.is_narrow, won)
    if 0 < finalists < len(rows):
        between = finalists - (0.66 if width.is_narrow else 0.5)
        axes.axhline(between, color=FAINT.light, linewidth=0.8, zorder=1)
    values = [end * MILLI for each in rows for end in (*(each.interval or ()), each.median_seconds or 0.0)]
    log_axis(axes, "x", padded(values), 6 if width.is_narrow else 10)
    axes.set_xlabel(milliseconds_a_step(each.time for each in rows))
    if yardstick_seconds is not None:
        yardstick_line(axes, yardstick_seconds * MILLI)
    there = {each.architecture for each in rows}
    handles = [look_handle(ARCHITECTURE_LOOKS[name], name) for name in ARCHITECTURES if name in there]
    if not all(each.remeasured for each in rows):
        handles.append(look_handle(look_of(None), "timed once", sure=False))
    legend_below(figure, handles, width)
    return Drawing(figure)


def draw_rounds(
    finals: Sequence[RuntimeRecord], contenders: Sequence[Contender], winner: str | None, width: Width
) -> Drawing:
    """The median of each finalist's turns, joined, with intervals over the steps of each turn."""
    finalists = [each for each in contenders if each.remeasured]
    figure = figure_of(width, 3.4 if width.is_narrow else 3.0)
    axes = figure.subplots()
    ends, handles = [], []
    for place, each in enumerate(finalists):
        turns = [record.step_seconds for record in finals if record.strategy.digest == each.digest]
        look, beside = look_of(each.architecture), 0.05 * (place - (len(finalists) - 1) / 2)
        places = [turn + 1 + beside for turn in range(len(turns))]
        medians = [statistics.median(steps) * MILLI for steps in turns]
        intervals = [median_interval(steps) for steps in turns]
        for at, (low, high) in zip(places, intervals, strict=True):
            axes.plot([at, at], [low * MILLI, high * MILLI], color=look.light, linewidth=1.0, alpha=0.55)
            ends += [low * MILLI, high * MILLI]
        won = each.digest == winner
        thick, style = (2.2, "-") if won else (1.2, "--" if each.purpose == "baseline" else DOTTED[place % len(DOTTED)])
        line = axes.plot(
            places, medians, linestyle=style, color=look.light, linewidth=thick, marker=look.marker, markersize=5,
            markerfacecolor=look.light if won else PAPER.light,
            label=each.name,
        )  # fmt: skip
        handles += line
    log_axis(axes, "y", padded(ends))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel(milliseconds_a_step(each.time for each in finals))
    legend_below(figure, handles, width)
    return Drawing(figure)
