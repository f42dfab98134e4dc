"""Draws a race: losses, and decisions over time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from autosync.report.blocks import Drawing
from autosync.report.pictures.axes import DASHED, figure_of, legend_below, log_axis, pad_limits
from autosync.report.style import FAINT, INK, SERIES, Width
from autosync.spec import TargetRecord

DECISIONS = {
    "counted": ("counted", "Replicas that a step waited for"),
    "kept": ("kept", "Share of the gradient that top-k kept"),
    "transport": ("transport", "Number of the transport that carried the elements of top-k"),
    "met": ("met", "Steps in which replicas synchronized"),
    "loads": ("largest_load", "Largest share of the examples of a step"),
}
"""By kind of decision, the field of `Decided` and its description."""

LEAST_HEIGHT = 3.0
"""The least height in inches, because the vertical title needs room next to all rows."""

COLOURS = (INK, *SERIES[:4])


def draw_curves(records: Sequence[TargetRecord], shown: Sequence[str], width: Width) -> Drawing:
    """Draw the loss of every run over seconds and, below, over steps; `shown` candidates have a colour."""
    figure = figure_of(width, 6.2)
    colours = {name: colour.light for name, colour in zip(shown, COLOURS, strict=False)}
    last = records[0].target.threshold
    unit = "seconds" if records[0].cluster.time == "real" else f"{records[0].cluster.time} seconds"
    for axes, field, label in zip(figure.subplots(2, 1), ("seconds", "step"), (unit, "steps"), strict=True):
        for record in sorted(records, key=lambda record: record.label in colours):
            at = [getattr(point, field) for point in record.curve]
            is_shown = record.label in colours
            axes.plot(
                at,
                [point.value for point in record.curve],
                color=colours.get(record.label, FAINT.light),
                linewidth=1.5 if is_shown else 0.8,
                alpha=0.9 if is_shown else 0.7,
            )
        axes.axhline(last, **DASHED)
        axes.set_xlabel(label)
        axes.set_ylabel("loss")
        axes.set_xlim(left=0)
        losses = [last, *(point.value for record in records for point in record.curve)]
        if min(losses) > 0:
            log_axis(axes, "y", pad_limits(losses))
    handles = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    legend_below(figure, [*handles, Line2D([], [], color=FAINT.light, label="others")], width)
    return Drawing(figure)


def draw_decisions(records: Sequence[TargetRecord], field: str, what: str, width: Width) -> Drawing:
    """Draw the decisions in each step, with a row of axes for each of `records`."""
    figure = figure_of(width, max(0.9 + 1.1 * len(records), LEAST_HEIGHT))
    rows = figure.subplots(len(records), 1, sharex=True, squeeze=False)[:, 0]
    for axes, record, colour in zip(rows, records, itertools.cycle(SERIES)):
        values = getattr(record.decided, field)
        axes.step(range(len(values)), values, where="post", color=colour.light, linewidth=1.2)
        axes.set_title(record.label, loc="left")
        if field == "kept":
            log_axis(axes, "y", pad_limits(values), most=4)
        elif field in ("counted", "met", "transport"):
            axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
    rows[-1].set_xlabel("step")
    figure.supylabel(what, fontsize=8.5)
    return Drawing(figure)
