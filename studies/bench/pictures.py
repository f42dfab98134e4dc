"""Pictures of replayed and of live searches."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from autosync.stats.estimate import Estimate
from studies.bench.contenders import IDEAL
from studies.bench.live_tables import kinds_of, over_seeds
from studies.bench.standings import CLOSE, YARDSTICK, Contest, Curves, Standings
from studies.pages import mark

# Okabe and Ito's colors, distinguishable with any kind of color vision.
COLORS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#b3a200", "#8c564b")
OURS, YARDSTICKS, BOUNDS = "#D55E00", "#7f7f7f", "#000000"

REGRETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Ticks of the logarithmic axis of regrets; smaller regrets are drawn at the first tick."""

COLUMNS = 4

LONGEST_REQUEST = 40
"""Most characters of a live search's request that a picture shows; the table has the full request."""


def cell_picture(standings: Standings, cell: str) -> Figure:
    """Draw regrets over trials for each searcher (seeds thin, median thick), and below the hit-rate per round."""
    searchers = [name for name in standings.searchers if name != IDEAL]
    blocks = math.ceil(len(searchers) / COLUMNS)
    columns = min(COLUMNS, len(searchers))
    figure = Figure(figsize=(0.8 + 3.1 * columns, 0.8 + 4.2 * blocks))
    grid = figure.subplots(2 * blocks, columns, sharex=True, sharey="row", squeeze=False, height_ratios=(5, 2) * blocks)
    curves = {name: standings.curves[Contest(cell, name, _baselines(standings))] for name in standings.searchers}
    highest = max(
        float(np.nanmax(np.where(np.isfinite(searches.regret), searches.regret, 0.0))) for searches in curves.values()
    )
    most_hits = max((rate.high for name in searchers for _, rate in curves[name].hit_rates()), default=1.0)
    for place in range(blocks * columns):
        above, below = grid[2 * (place // columns) : 2 * (place // columns) + 2, place % columns]
        if place >= len(searchers):
            above.set_visible(False)
            below.set_visible(False)
            continue
        searcher = searchers[place]
        color = _color(standings, searcher)
        if YARDSTICK in curves and searcher != YARDSTICK:
            _median(above, curves[YARDSTICK], YARDSTICKS, "--")
        if IDEAL in curves:
            _median(above, curves[IDEAL], BOUNDS, ":")
        for regret in _clip(curves[searcher].regret):
            above.plot(_trials(curves[searcher]), regret, color=color, linewidth=0.6, alpha=0.3, drawstyle="steps-post")
        _median(above, curves[searcher], color, "-")
        _hit_rates(below, curves[searcher], color)
        above.set_title(searcher, fontsize=11, color=color)
        _regret_axis(above, highest)
        _hit_axis(below, most_hits)
        if place % columns == 0:
            above.set_ylabel("regret")
            below.set_ylabel("hit-rate")
        if place + columns >= len(searchers):
            below.tick_params(labelbottom=True)
            below.set_xlabel("trials")
    seeds = len(next(iter(curves.values())).true)
    first = "baselines given" if _baselines(standings) else "no baselines given"
    figure.suptitle(
        f"{cell}, {first}: {seeds} seeds thin, median thick, median of {YARDSTICK} search dashed, median of the "
        "oracle without noise dotted.\nRegret: share by which the best so far is slower than the pool's best. "
        "Hit-rate: share of a round's trials faster than\nthe best baseline by 2 standard errors, with Wilson's "
        "interval.",
        fontsize=9.5,
    )
    return figure


def summary_picture(standings: Standings, title: str) -> Figure | None:
    """Draw each search's trials to within 5 % of the pool's best, and the ratio of random search's trials to them."""
    searchers = standings.searchers
    if not searchers:
        return None
    figure = Figure(figsize=(10, 1.6 + 0.45 * len(searchers)))
    left, right = figure.subplots(1, 2, sharey=True)
    for row, searcher in enumerate(searchers):
        color = _color(standings, searcher)
        by_cell = list(standings.curves_by_cell(searcher).values())
        most = max(curves.true.shape[1] for curves in by_cell)
        needed = np.minimum(np.concatenate([curves.trials_to(CLOSE[0]) for curves in by_cell]), most + 1)
        beside = row + np.linspace(-0.28, 0.28, len(needed))
        left.plot(needed, beside, ".", color=color, markersize=3, alpha=0.35)
        _dot(left, standings.trials(searcher), row, color, most)
        if YARDSTICK in searchers:
            _dot(right, standings.fewer_trials(searcher, YARDSTICK), row, color, math.inf)
    left.set_yticks(range(len(searchers)), searchers)
    left.set_ylim(len(searchers) - 0.5, -0.5)
    left.set_xlabel(f"trials to within 5 % of the best (beyond {most}: not reached)")
    right.axvline(1, color="#555555", linestyle="--", linewidth=1.2)
    right.set_xlabel(f"times fewer trials than {YARDSTICK} search")
    figure.suptitle(f"{len(standings.cells)} cells, {title} (95 % intervals)")
    return figure


def live_picture(rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draw the re-measured speed-up over the best baseline of each live search, with its interval."""
    if not rows:
        return None
    kinds = [
        (kind, control, searches)
        for control in (False, True)
        for kind, searches in kinds_of(row for row in rows if row["control"] == control).items()
    ]
    requests = [kind.request.split() for kind, _, _ in kinds]
    shared = sum(1 for _ in itertools.takewhile(lambda words: len(set(words)) == 1, zip(*requests, strict=False)))
    titles = [
        f"{kind.cell}{' (control)' if control else ''}\n{kind.name} {_short(words[shared:])}"
        for (kind, control, _), words in zip(kinds, requests, strict=True)
    ]
    figure = Figure(figsize=(9, 1.2 + 0.48 * len(kinds)))
    axis = figure.subplots()
    for place, (_, control, searches) in enumerate(kinds):
        for number, row in enumerate(searches):
            beside = place + 0.5 * ((number + 0.5) / len(searches) - 0.5)
            _dot(axis, over_seeds([row]), beside, YARDSTICKS if control else OURS, math.inf)
    axis.axvline(1, color="#555555", linestyle="--", linewidth=1.2)
    axis.set_yticks(range(len(kinds)), titles, fontsize=8)
    axis.set_ylim(len(kinds) - 0.5, -0.5)
    axis.set_xlabel("speed-up over the best baseline\n(95 % intervals; one mark per search)")
    return figure


def _short(words: Sequence[str]) -> str:
    """Return the request, shortened to fit into a picture."""
    request = " ".join(words)
    return request if len(request) <= LONGEST_REQUEST else f"{request[: LONGEST_REQUEST - 3]}..."


def _trials(curves: Curves) -> npt.NDArray[np.int64]:
    return np.arange(1, 1 + curves.true.shape[1])


def _clip(regret: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.maximum(regret, REGRETS[0]))


def _median(axis: Axes, curves: Curves, color: str, style: str) -> None:
    median = _clip(np.median(curves.regret, axis=0))
    axis.plot(_trials(curves), median, color=color, linestyle=style, linewidth=2.2, drawstyle="steps-post")


def _regret_axis(axis: Axes, highest: float) -> None:
    ticks = [tick for tick in REGRETS if tick <= 1.5 * max(highest, CLOSE[0])]
    axis.set_yscale("log")
    axis.set_ylim(0.85 * REGRETS[0], 1.3 * max(highest, CLOSE[0]))
    axis.set_yticks(ticks, [f"{'< ' if tick == REGRETS[0] else ''}{100 * tick:g} %" for tick in ticks])
    axis.yaxis.set_minor_locator(NullLocator())


def _hit_rates(axis: Axes, curves: Curves, color: str) -> None:
    rates = curves.hit_rates()
    if not rates:
        return
    trials = [trial for trial, _ in rates]
    axis.plot(trials, [rate.value for _, rate in rates], color=color, marker=".", linewidth=1.6)
    axis.fill_between(
        trials, [e.low for _, e in rates], [e.high for _, e in rates], color=color, alpha=0.2, linewidth=0
    )


def _hit_axis(axis: Axes, most: float) -> None:
    """Scale the axis from 0 to the highest interval, because a few hits would be a flat line on the range 0 to 1."""
    axis.set_ylim(-0.03 * most, 1.06 * most)
    axis.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def _dot(axis: Axes, estimate: Estimate, row: float, color: str, most: float) -> None:
    """Draw a mark with its interval; the interval's ends are clipped just beyond `most`."""
    value, low, high = (min(end, most + 1) for end in (estimate.value, estimate.low, estimate.high))
    if not all(map(math.isfinite, (value, low, high))):
        return
    mark(axis, value, (max(value - low, 0.0), max(high - value, 0.0)), row, color)


def _color(standings: Standings, searcher: str) -> str:
    """Return the searcher's color, independent of the searchers' order."""
    known = {"guided": OURS, YARDSTICK: YARDSTICKS, IDEAL: BOUNDS}
    if searcher in known:
        return known[searcher]
    unnamed = sorted({contest.searcher for contest in standings.curves} - set(known))
    return COLORS[unnamed.index(searcher) % len(COLORS)]


def _baselines(standings: Standings) -> bool:
    return next(iter(standings.curves)).baselines
