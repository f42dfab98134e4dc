"""The pictures of the proof."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from autosync.stats.cells import CellName
from studies.bench.contenders import OURS
from studies.bench.pictures import COLORS
from studies.bench.pictures import OURS as OUR_COLOR
from studies.pages import mark
from studies.proof.finals import BASELINE_ROLE, DEFAULT_ROLE
from studies.proof.methods import ALL_REDUCE, METHODS
from studies.proof.outcomes import JobOutcome, median_over_seeds, over_seeds

PANELS = {"DDP's default": DEFAULT_ROLE, "the best baseline": BASELINE_ROLE, "the all-reduce by hand": ALL_REDUCE}
WIDEST = 4.0
"""The largest half of an interval that is drawn; the interval of two seeds may be wider."""


def gains_picture(cells: Mapping[CellName, Sequence[JobOutcome]]) -> Figure:
    """Draw each cell's gain of guided search with its interval, and the gain that the bound allows as a bar."""
    figure = Figure(figsize=(12, 1.4 + 0.3 * len(cells)))
    axes = figure.subplots(1, len(PANELS), sharey=True, squeeze=False)[0]
    names = list(cells)
    for axis, (title, role) in zip(axes, PANELS.items(), strict=True):
        for place, jobs in enumerate(cells.values()):
            room = median_over_seeds(job.room(role) for job in jobs)
            if math.isfinite(room):
                axis.plot([room, room], [place - 0.3, place + 0.3], color="#000000", linewidth=2)
            gain = over_seeds(jobs, (role,))
            if math.isfinite(gain.value):
                arms = (min(gain.value - gain.low, WIDEST), min(gain.high - gain.value, WIDEST))
                mark(axis, gain.value, arms, place, OUR_COLOR)
        axis.axvline(1, color="#555555", linestyle="--", linewidth=1.2)
        axis.set_xlabel(f"speed-up over {title}")
    axes[0].set_yticks(range(len(names)), [str(name) for name in names], fontsize=8)
    axes[0].set_ylim(max(len(names), 1) - 0.5, -0.5)
    figure.suptitle("Guided search (95 % intervals); black: by the bound without a barrier", fontsize=10)
    return figure


def curves_picture(outcomes: Sequence[JobOutcome]) -> Figure:
    """Draw each method's best step so far over the best of all methods, as a geometric mean over jobs."""
    figure = Figure(figsize=(8, 4.6))
    axis = figure.subplots()
    rivals = [method for method in METHODS if method != OURS]
    for method in METHODS:
        curves = [job.best_so_far(method) for job in outcomes if method in job.methods]
        longest = max(map(len, curves), default=0)
        if not longest:
            continue
        padded = np.log([curve + curve[-1:] * (longest - len(curve)) for curve in curves if curve])
        known = np.where(np.isfinite(padded), padded, np.nan)
        excess = 100 * (np.exp(np.nanmean(known, axis=0)) - 1)
        color = OUR_COLOR if method == OURS else COLORS[rivals.index(method) % len(COLORS)]
        width = 2.4 if method == OURS else 1.4
        axis.plot(np.arange(1, longest + 1), excess, label=method, color=color, linewidth=width, drawstyle="steps-post")
    axis.set_xlabel("trials")
    axis.set_ylabel("best so far over the best\nof all methods, %")
    axis.set_ylim(bottom=0)
    axis.legend(ncols=2, fontsize=8)
    axis.set_title(f"{len(outcomes)} jobs, geometric mean", fontsize=10)
    return figure
