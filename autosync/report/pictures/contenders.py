"""Draws baselines and finalists: medians with intervals, and the finals round by round."""

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
    pad_limits,
    rows_axis,
    rows_inches,
    yardstick_line,
)
from autosync.report.style import ARCHITECTURE_LOOKS, FAINT, PAPER, Width, look_of
from autosync.runs import Contender
from autosync.spec import RuntimeRecord, median_interval
from autosync.words.strategy import ARCHITECTURES

DOTTED: tuple[Any, ...] = ((0, (1, 1.5)), (0, (4, 1.2, 1, 1.2)), (0, (1, 3)))
"""Line styles of finalists that are not baselines, in turn."""


def draw_contenders(
    contenders: Sequence[Contender], winner: str | None, yardstick_seconds: float | None, width: Width
) -> Drawing:
    """Draw every timed contender, finalists first, each kind fastest first; contenders with a single trial are
    hollow.
    """
    rows = [contender for contender in contenders if contender.median_seconds is not None]
    finalists = sum(contender.remeasured for contender in rows)
    figure = figure_of(width, rows_inches(len(rows), width.is_narrow) + 0.35)
    axes = figure.subplots()
    for row, contender in enumerate(rows):
        low, high = contender.interval or (contender.median_seconds or 0.0,) * 2
        ends = low * MILLI, high * MILLI
        dot(
            axes,
            (contender.median_seconds or 0.0) * MILLI,
            ends,
            row,
            look_of(contender.architecture),
            contender.remeasured,
        )
    won = [row for row, contender in enumerate(rows) if contender.digest == winner]
    rows_axis(axes, [contender.name for contender in rows], width.is_narrow, won)
    if 0 < finalists < len(rows):
        between = finalists - (0.66 if width.is_narrow else 0.5)
        axes.axhline(between, color=FAINT.light, linewidth=0.8, zorder=1)
    values = [
        end * MILLI for contender in rows for end in (*(contender.interval or ()), contender.median_seconds or 0.0)
    ]
    log_axis(axes, "x", pad_limits(values), 6 if width.is_narrow else 10)
    axes.set_xlabel(milliseconds_a_step(contender.time for contender in rows))
    if yardstick_seconds is not None:
        yardstick_line(axes, yardstick_seconds * MILLI)
    there = {contender.architecture for contender in rows}
    handles = [look_handle(ARCHITECTURE_LOOKS[name], name) for name in ARCHITECTURES if name in there]
    if not all(contender.remeasured for contender in rows):
        handles.append(look_handle(look_of(None), "timed once", sure=False))
    legend_below(figure, handles, width)
    return Drawing(figure)


def draw_rounds(
    finals: Sequence[RuntimeRecord], contenders: Sequence[Contender], winner: str | None, width: Width
) -> Drawing:
    """Draw the medians of each finalist's turns as a line, with intervals over the steps of each turn."""
    finalists = [contender for contender in contenders if contender.remeasured]
    figure = figure_of(width, 3.4 if width.is_narrow else 3.0)
    axes = figure.subplots()
    ends, handles = [], []
    for place, contender in enumerate(finalists):
        turns = [record.step_seconds for record in finals if record.strategy.digest == contender.digest]
        look, beside = look_of(contender.architecture), 0.05 * (place - (len(finalists) - 1) / 2)
        places = [turn + 1 + beside for turn in range(len(turns))]
        medians = [statistics.median(steps) * MILLI for steps in turns]
        intervals = [median_interval(steps) for steps in turns]
        for at, (low, high) in zip(places, intervals, strict=True):
            axes.plot([at, at], [low * MILLI, high * MILLI], color=look.light, linewidth=1.0, alpha=0.55)
            ends += [low * MILLI, high * MILLI]
        won = contender.digest == winner
        thick, style = (
            (2.2, "-") if won else (1.2, "--" if contender.purpose == "baseline" else DOTTED[place % len(DOTTED)])
        )
        line = axes.plot(
            places, medians, linestyle=style, color=look.light, linewidth=thick, marker=look.marker, markersize=5,
            markerfacecolor=look.light if won else PAPER.light,
            label=contender.name,
        )  # fmt: skip
        handles += line
    log_axis(axes, "y", pad_limits(ends))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel(milliseconds_a_step(record.time for record in finals))
    legend_below(figure, handles, width)
    return Drawing(figure)
