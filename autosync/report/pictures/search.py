"""Draws the search trial by trial and, below, the share of trials that beat the best baseline."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

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
from autosync.report.style import ARCHITECTURE_LOOKS, FAINT, INK, MUTED, PAPER, Width, look_of
from autosync.spec import median_interval
from autosync.stats.accuracy import best_so_far
from autosync.stats.hits import HitRate, Yardstick
from autosync.words.quantities import milliseconds
from autosync.words.strategy import ARCHITECTURES

SIZES = {True: 44.0, False: 20.0}
"""Sizes of markers: of baselines (True) and of candidates (False)."""


def draw_search(
    points: Sequence[Point], yardstick: Yardstick | None, rates: Sequence[HitRate], width: Width
) -> Drawing:
    """Draw trials above and hit-rates below; without rates, only the trials."""
    figure = figure_of(width, (5.6 if width.is_narrow else 5.2) if rates else 3.9)
    if rates:
        trials, hits = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        _draw_rates(hits, rates)
        last = hits
    else:
        trials = last = figure.subplots()
    tooltips = _draw_trials(trials, points, yardstick)
    last.set_xlabel("trial")
    last.xaxis.set_major_locator(MaxNLocator(integer=True))
    last.set_xlim(0, points[-1].number + 1)
    legend_below(figure, _handles(points, yardstick), width)
    return Drawing(figure, tooltips)


def _draw_trials(axes: Axes, points: Sequence[Point], yardstick: Yardstick | None) -> dict[str, list[str]]:
    """Draw points with intervals, the best so far, and the yardstick; return the texts over the points."""
    timed = [point for point in points if point.record.median_seconds is not None]
    tooltips: dict[str, list[str]] = {}
    ends: list[float] = []
    for point in timed:
        low, high = (end * MILLI for end in median_interval(point.record.step_seconds))
        axes.plot([point.number] * 2, [low, high], color=look_of(point.architecture).light, linewidth=0.8, alpha=0.4)
        ends += [low, high]
    for kind in product(ARCHITECTURES, (True, False), (True, False)):
        chosen = [point for point in timed if kind == (point.architecture, point.is_baseline, point.is_stopped)]
        if chosen:
            gid = f"points-{'-'.join(map(str, kind))}".replace(" ", "-")
            _scatter(axes, chosen, gid)
            tooltips[gid] = [_tooltip(point) for point in chosen]
    _ring_remeasured(axes, timed)
    if yardstick is not None:
        low, high = (end * MILLI for end in yardstick.interval)
        axes.axhspan(low, high, color=MUTED.light, alpha=0.16, linewidth=0)
        axes.axhline(yardstick.seconds * MILLI, **DASHED)
        ends += [low, high]
    _draw_best(axes, points)
    limits = pad_limits(ends or [1.0, 10.0])
    log_axis(axes, "y", limits)
    failed = [point.number for point in points if point.record.median_seconds is None]
    if failed:
        top = [limits[1]] * len(failed)
        (crosses,) = axes.plot(failed, top, "x", color=INK.light, markersize=6, clip_on=False, zorder=6)
        crosses.set_in_layout(False)
    axes.set_ylabel(milliseconds_a_step(point.record.time for point in points))
    return tooltips


def _scatter(axes: Axes, chosen: Sequence[Point], gid: str) -> None:
    """Draw trials of one kind. Stopped trials are hollow, because only their first steps were timed."""
    look, is_baseline, stopped = look_of(chosen[0].architecture), chosen[0].is_baseline, chosen[0].is_stopped
    marks = axes.scatter(
        [point.number for point in chosen],
        [(point.record.median_seconds or 0.0) * MILLI for point in chosen],
        s=SIZES[is_baseline],
        marker=look.marker,
        facecolor=PAPER.light if stopped else look.light,
        edgecolor=INK.light if is_baseline and not stopped else look.light,
        linewidth=1.1 if stopped or is_baseline else 0.5,
        zorder=4,
    )
    marks.set_gid(gid)


def _ring_remeasured(axes: Axes, timed: Sequence[Point]) -> None:
    again = [point for point in timed if point.remeasured]
    axes.scatter(
        [point.number for point in again],
        [(point.record.median_seconds or 0.0) * MILLI for point in again],
        s=120, facecolor="none", edgecolor=INK.light, linewidth=1.2, zorder=5,
    )  # fmt: skip


def _draw_best(axes: Axes, points: Sequence[Point]) -> None:
    """Draw the least median of a complete trial so far."""
    complete = [point for point in points if point.record.outcome == "ok"]
    if complete:
        best = best_so_far([point.record for point in complete]) * MILLI
        numbers = [point.number for point in complete]
        axes.step([*numbers, points[-1].number], [*best, best[-1]], where="post", color=INK.light, linewidth=1.5)


def _draw_rates(axes: Axes, rates: Sequence[HitRate]) -> None:
    for rate in rates:
        middle, ends, share = (rate.first + rate.last) / 2, [rate.first - 0.4, rate.last + 0.4], rate.share
        axes.plot(ends, [share.value] * 2, color=INK.light, linewidth=2.2)
        axes.plot([middle, middle], [share.low, share.high], color=INK.light, linewidth=1.0, alpha=0.6)
        axes.fill_between(ends, 0, share.value, color=FAINT.light, alpha=0.45, linewidth=0)
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2.5, 5, 10]))
    axes.set_ylabel("hit-rate")


def _tooltip(point: Point) -> str:
    record = point.record
    median = milliseconds(record.median_seconds, record.time)
    predicted = f", predicted {milliseconds(record.predicted_seconds)}" if record.predicted_seconds else ""
    return (
        f"Trial {point.number}: {record.label} {record.strategy.digest[:8]} ({point.architecture}), "
        f"{median}{predicted}{'' if record.outcome == 'ok' else ', ' + record.outcome}"
    )


def _handles(points: Sequence[Point], yardstick: Yardstick | None) -> list[Line2D | Patch]:
    there = {point.architecture for point in points if point.record.median_seconds is not None}
    handles: list[Line2D | Patch] = [
        look_handle(ARCHITECTURE_LOOKS[name], name) for name in ARCHITECTURES if name in there
    ]
    plain: dict[str, Any] = {"linestyle": "", "color": INK.light, "markerfacecolor": PAPER.light}
    if any(point.is_baseline for point in points):
        handles.append(Line2D([], [], marker="o", markersize=7, label="baselines: large", **plain))
    if any(point.is_stopped for point in points):
        handles.append(Line2D([], [], marker="o", markersize=4.5, label="stopped early: hollow", **plain))
    if any(point.remeasured for point in points):
        handles.append(Line2D([], [], marker="o", markersize=10, label="measured again: ringed", **plain))
    if any(point.record.median_seconds is None for point in points):
        handles.append(Line2D([], [], linestyle="", marker="x", color=INK.light, label="no step time"))
    handles.append(Line2D([], [], color=INK.light, linewidth=1.5, label="best so far"))
    if yardstick is not None:
        handles.append(Line2D([], [], color=MUTED.light, linestyle=(0, (4, 2)), label="best baseline"))
    return handles
