"""Draws several runs: their winners, their speed-ups, and their curves over each other."""

from collections.abc import Sequence

from matplotlib.ticker import MaxNLocator

from autosync.report.blocks import Drawing
from autosync.report.pictures.axes import (
    DASHED,
    MILLI,
    dot,
    figure_of,
    legend_below,
    log_axis,
    milliseconds_a_step,
    pad_limits,
    rows_axis,
    rows_inches,
    yardstick_line,
)
from autosync.report.style import INK, MUTED, RUN_COLOURS, Look, Width, look_of
from autosync.runs import Contender
from autosync.spec import RuntimeRecord
from autosync.stats.accuracy import best_so_far
from autosync.stats.hits import Yardstick

LINES = ("-", "--", "-.", ":")


def draw_winners(rows: Sequence[tuple[str, Contender | None, Contender | None]], width: Width) -> Drawing:
    """A drawing of (run, winner, best baseline), with two dots a row."""
    figure = figure_of(width, rows_inches(len(rows), width.is_narrow) + 0.1)
    axes = figure.subplots()
    ends = []
    for row, (_, winner, baseline) in enumerate(rows):
        for contender, beside, sure in ((baseline, 0.16, False), (winner, -0.08, True)):
            if contender is not None and contender.median_seconds is not None:
                low, high = (end * MILLI for end in contender.interval or (contender.median_seconds,) * 2)
                dot(
                    axes,
                    contender.median_seconds * MILLI,
                    (low, high),
                    row + beside,
                    look_of(contender.architecture),
                    sure,
                )
                ends += [low, high]
    rows_axis(axes, [title for title, _, _ in rows], width.is_narrow)
    log_axis(axes, "x", pad_limits(ends))
    axes.set_xlabel(
        milliseconds_a_step(contender.time for _, *pair in rows for contender in pair if contender is not None)
    )
    return Drawing(figure)


def draw_speedups(rows: Sequence[tuple[str, float, tuple[float, float]]], width: Width) -> Drawing:
    """A drawing of (run, speed-up, interval)."""
    figure = figure_of(width, rows_inches(len(rows), width.is_narrow) + 0.1)
    axes = figure.subplots()
    for row, (_, speedup, interval) in enumerate(rows):
        sure = interval[0] > 1 or interval[1] < 1
        dot(axes, speedup, interval, row, Look(INK if sure else MUTED, "o"), sure)
    rows_axis(axes, [title for title, _, _ in rows], width.is_narrow)
    yardstick_line(axes, 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.set_xlabel("speed-up over the best baseline of the run")
    return Drawing(figure)


def draw_curves(
    runs: Sequence[tuple[str, Sequence[int], Sequence[RuntimeRecord], Yardstick | None]], relative: bool, width: Width
) -> Drawing:
    """A drawing of (run, numbers of complete trials, their records, best baseline); `relative` to each run's best
    baseline.
    """
    figure = figure_of(width, 3.9)
    axes = figure.subplots()
    ends, handles = [], []
    for place, (title, numbers, records, yardstick) in enumerate(runs):
        colour, style = RUN_COLOURS[place % len(RUN_COLOURS)].light, LINES[place % len(LINES)]
        unit = 1 / yardstick.seconds if relative and yardstick else MILLI
        best = best_so_far(records) * unit
        handles += axes.step(numbers, best, style, where="post", color=colour, linewidth=1.8, label=title)
        ends += best.tolist()
        if yardstick is not None:
            band = [end * unit for end in yardstick.interval]
            axes.axhspan(*band, color=colour, alpha=0.13, linewidth=0)
            ends += band
    log_axis(axes, "y", pad_limits(ends), 7 if relative else 8)
    counted = milliseconds_a_step(record.time for _, _, records, _ in runs for record in records)
    axes.set_ylabel("best so far / best baseline" if relative else f"best {counted} so far")
    if relative:
        axes.axhline(1.0, **DASHED)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("trial")
    legend_below(figure, handles, width)
    return Drawing(figure)
