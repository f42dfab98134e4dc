"""Draws predicted against measured step times, and the error of predictions over the course of the search."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from autosync.report.blocks import Drawing
from autosync.report.findings import Point
from autosync.report.pictures.axes import (
    DASHED,
    MILLI,
    figure_of,
    legend_below,
    log_axis,
    look_handle,
    milliseconds_a_step,
    pad_limits,
)
from autosync.report.style import ARCHITECTURE_LOOKS, INK, PAPER, Look, Width
from autosync.spec import median_interval
from autosync.words.quantities import milliseconds
from autosync.words.strategy import ARCHITECTURES


def draw_predictions(points: Sequence[Point], width: Width) -> Drawing:
    """A drawing of all points that have both a prediction and a step time."""
    known = [point for point in points if point.record.predicted_seconds and point.record.median_seconds]
    figure = figure_of(width, 7.2 if width.is_narrow else 4.1)
    rows, columns = (2, 1) if width.is_narrow else (1, 2)
    scatter, course = figure.subplots(rows, columns)
    values = [(point.record.predicted_seconds or 1.0) * MILLI for point in known]
    values += [end * MILLI for point in known for end in median_interval(point.record.step_seconds)]
    limits = pad_limits(values)
    scatter.plot(limits, limits, **DASHED)
    tooltips = {}
    for architecture in ARCHITECTURES:
        for is_baseline in (True, False):
            chosen = [
                point for point in known if (point.architecture, point.is_baseline) == (architecture, is_baseline)
            ]
            if chosen:
                gid = f"predicted-{architecture}-{is_baseline}".replace(" ", "-")
                _draw(scatter, course, chosen, gid)
                tooltips[gid] = [_tooltip(point) for point in chosen]
    for which in ("x", "y"):
        log_axis(scatter, which, limits, 6)
    unit = milliseconds_a_step(point.record.time for point in known)
    scatter.set(aspect="equal", xlabel=f"measured {unit}", ylabel=f"predicted {unit}")
    _finish_course(course, known)
    there = {point.architecture for point in known}
    handles = [look_handle(ARCHITECTURE_LOOKS[name], name) for name in ARCHITECTURES if name in there]
    if any(point.is_baseline for point in known):
        handles.append(look_handle(Look(INK, "o"), "baselines: hollow", sure=False))
    handles.append(Line2D([], [], color=DASHED["color"], linestyle=DASHED["linestyle"], label="predicted = measured"))
    legend_below(figure, handles, width)
    return Drawing(figure, tooltips)


def _draw(scatter: Axes, course: Axes, chosen: Sequence[Point], gid: str) -> None:
    look = ARCHITECTURE_LOOKS[chosen[0].architecture]
    hollow = chosen[0].is_baseline
    measured = [(point.record.median_seconds or 1.0) * MILLI for point in chosen]
    predicted = [(point.record.predicted_seconds or 1.0) * MILLI for point in chosen]
    for point, height in zip(chosen, predicted, strict=True):
        low, high = median_interval(point.record.step_seconds)
        scatter.plot([low * MILLI, high * MILLI], [height, height], color=look.light, linewidth=0.8, alpha=0.4)
    face = PAPER.light if hollow else look.light
    marks: dict[str, Any] = {"s": 22, "marker": look.marker, "linewidth": 1.0, "zorder": 3}
    marks |= {"facecolor": face, "edgecolor": look.light}
    scatter.scatter(measured, predicted, **marks).set_gid(gid)
    off = [p / m for p, m in zip(predicted, measured, strict=True)]
    course.scatter([point.number for point in chosen], off, **marks)


def _finish_course(axes: Axes, known: Sequence[Point]) -> None:
    off = [(point.record.predicted_seconds or 1.0) / (point.record.median_seconds or 1.0) for point in known]
    axes.axhline(1.0, **DASHED, zorder=1)
    log_axis(axes, "y", pad_limits([*off, 0.8, 1.25]), 7)
    axes.set(xlabel="trial", ylabel="predicted / measured")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _tooltip(point: Point) -> str:
    record = point.record
    return (
        f"Trial {point.number}: {record.label} {record.strategy.digest[:8]} ({point.architecture}), predicted "
        f"{milliseconds(record.predicted_seconds)}, measured {milliseconds(record.median_seconds, record.time)}"
    )
