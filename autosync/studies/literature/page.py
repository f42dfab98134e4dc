"""The page of the literature's experiments: claims beside what was found, all figures, and a picture of each cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from autosync.files import inner_folder, write_atomically
from autosync.stats.estimate import Estimate
from autosync.stats.tables import NOTHING, Table
from autosync.studies.literature.experiment import Claim, Experiment, mean_ratio
from autosync.studies.literature.job import rows_of
from autosync.studies.literature.rows import Rows
from autosync.studies.pages import RC, mark, write_picture

PAGE = "literature.md"

ABOUT = (
    "Made by `autosync bench literature`; rerun, it goes on. Values are means over paired seeds (geometric ones of "
    "ratios) with 95 % intervals over resampled seeds. *Virtual* seconds are worked out and not waited for, with "
    "*real* gradients or *none* computed at all; they are compared among themselves only."
)


def write_page(experiments: Sequence[Experiment], out: Path) -> Path:
    """Write the page, its tables and its pictures, from what is kept; where the page is."""
    folder = inner_folder(out, "literature_page")
    parts = ["# The systems of the literature, side by side", "", ABOUT, ""]
    for experiment in experiments:
        rows = rows_of(experiment, out)
        if not rows.all:
            continue
        claims = claims_table(experiment, rows)
        figures = figures_table(experiment, rows)
        for table in (claims, figures):
            write_atomically(folder / f"{table.name}.csv", table.csv())
        figure = experiment.drawn(rows) if experiment.drawn else picture(experiment, rows)
        write_picture(folder, experiment.name, figure, kinds=("png",), colors=64)
        parts += [claims.markdown(), f"![{experiment.title}]({experiment.name}.png)", "", figures.markdown()]
    write_atomically(folder / PAGE, "\n".join(parts))
    return folder / PAGE


def claims_table(experiment: Experiment, rows: Rows) -> Table:
    """What was to be, what was found, and what is possible."""
    return Table(
        f"{experiment.name}_claims",
        experiment.title,
        f"{_marks(rows)} What was expected, beside what was found.",
        ("claim", "found", "to be", "bound", "holds"),
        [
            (
                each.says,
                in_words(each.found),
                _wanted(each),
                NOTHING if each.bound is None else f"{each.bound:.3g}",
                _held(each),
            )
            for each in experiment.claims(rows)
        ],
    )


def figures_table(experiment: Experiment, rows: Rows) -> Table:
    """Every figure of every arm: its mean over seeds."""
    lines = []
    names = tuple(dict.fromkeys(name for cell in rows.cells for name in rows.figures(cell)))
    for cell in rows.cells:
        for arm in rows.arms(cell):
            found = [list(rows.values(cell, arm, name).values()) for name in names]
            if any(found):
                lines.append((cell, arm, str(max(map(len, found))), *(_summary(values) for values in found)))
    about = "Means over seeds, with 95 % intervals where there are several; infinite where a seed did not arrive."
    return Table(
        f"{experiment.name}_figures", f"{experiment.title}: all figures", about, ("cell", "arm", "seeds", *names), lines
    )


def claim_lines(experiment: Experiment, rows: Rows) -> Iterator[str]:
    """The claims, for the terminal."""
    for each in experiment.claims(rows):
        bound = "" if each.bound is None else f", bound {each.bound:.3g}"
        wanted = _wanted(each)
        wanted = f" (to be {wanted}{bound})" if wanted != NOTHING else ""
        yield f"  {_held(each):6} {each.says}: {in_words(each.found)}{wanted}"


def picture(experiment: Experiment, rows: Rows) -> Figure:
    """The figure that is shown, by cell: a mark for each arm."""
    cells = [cell for cell in rows.cells if experiment.shown in rows.figures(cell)]
    columns = min(3, len(cells))
    lines = math.ceil(len(cells) / columns)
    most = max(len(rows.arms(cell)) for cell in cells)
    with mpl.rc_context(dict[Any, Any](RC)):
        figure = Figure(figsize=(4.6 * columns, lines * (0.26 * most + 1.0)))
        axes = np.atleast_1d(np.asarray(figure.subplots(lines, columns))).ravel()
        for axis, cell in zip(axes, cells, strict=False):
            arms = [arm for arm in rows.arms(cell) if rows.values(cell, arm, experiment.shown)]
            for row, arm in enumerate(arms):
                values = [each for each in rows.values(cell, arm, experiment.shown).values() if math.isfinite(each)]
                if values:
                    found = _mean(values)
                    arms_of = (max(found.value - found.low, 0.0), max(found.high - found.value, 0.0))
                    mark(axis, found.value, arms_of, row, "#1f6fb4")
                else:
                    axis.text(0.02, row, "never", va="center", transform=axis.get_yaxis_transform())
            axis.set_yticks(range(len(arms)), arms)
            axis.set_ylim(len(arms) - 0.5, -0.5)
            axis.set_title(cell, fontsize=10)
            axis.set_xlabel(experiment.shown)
        for axis in axes[len(cells) :]:
            axis.set_visible(False)
    return figure


def in_words(found: Estimate) -> str:
    if math.isnan(found.value):
        return NOTHING
    value = f"{found.value:.3g}"
    if found.low == found.high or not (math.isfinite(found.low) and math.isfinite(found.high)):
        return value
    return f"{value} [{found.low:.3g}, {found.high:.3g}]"


def _wanted(claim: Claim) -> str:
    if claim.least == claim.most:
        return f"{claim.least:g}"
    least = f">= {claim.least:g}" if math.isfinite(claim.least) else ""
    most = f"<= {claim.most:g}" if math.isfinite(claim.most) else ""
    return " and ".join(filter(None, (least, most))) or NOTHING


def _held(claim: Claim) -> str:
    if math.isnan(claim.found.value):
        return "open"
    if _wanted(claim) == NOTHING:
        return "-"
    return "yes" if claim.holds else "NO"


def _mean(values: Sequence[float]) -> Estimate:
    """The mean of values of any sign; of positive ones the geometric one."""
    if min(values) > 0:
        return mean_ratio(np.array(values))
    return Estimate(float(np.mean(values)), min(values), max(values))


def _summary(values: Sequence[float]) -> str:
    if not values:
        return NOTHING
    missed = sum(not math.isfinite(each) for each in values)
    reached = [each for each in values if math.isfinite(each)]
    if not reached:
        return "never"
    said = in_words(_mean(reached)) if len(set(reached)) > 1 else f"{reached[0]:.3g}"
    return f"{said}, {missed} of {len(values)} never" if missed else said


def _marks(rows: Rows) -> str:
    times, numbers = ({getattr(each, name) for each in rows.all} for name in ("time", "numbers"))
    return f"Time: {', '.join(sorted(times))}. Gradients: {', '.join(sorted(numbers))}."
