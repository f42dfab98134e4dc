"""Writes the page of the literature's experiments: claims with measured values, all figures, and pictures."""

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
from autosync.stats.tables import NOTHING, TextTable
from studies.literature.experiment import Claim, Experiment, mean_ratio
from studies.literature.job import rows_of
from studies.literature.rows import FigureRows
from studies.pages import RC, mark, write_picture

PAGE = "literature.md"

ABOUT = (
    "Made by `python -m studies bench literature`; the same command resumes it. Values are means over paired seeds "
    "(geometric means for ratios) with 95 % intervals over resampled seeds. *Virtual* seconds are computed rather than "
    "waited for, with *real* gradients or *none*; they are compared only with each other."
)


def write_page(experiments: Sequence[Experiment], out: Path) -> Path:
    """Write the page, its tables and its pictures from the kept rows; return the path of the page."""
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
        figure = experiment.draw(rows) if experiment.draw else picture(experiment, rows)
        write_picture(folder, experiment.name, figure, kinds=("png",), colors=64)
        parts += [claims.markdown(), f"![{experiment.title}]({experiment.name}.png)", "", figures.markdown()]
    write_atomically(folder / PAGE, "\n".join(parts))
    return folder / PAGE


def claims_table(experiment: Experiment, rows: FigureRows) -> TextTable:
    """Return the table of claims: expected range, measured value and bound."""
    return TextTable(
        f"{experiment.name}_claims",
        experiment.title,
        f"{_marks(rows)} *found*: measured value; *to be*: expected range.",
        ("claim", "found", "to be", "bound", "holds"),
        [
            (
                claim.says,
                in_words(claim.measured),
                _expected(claim),
                NOTHING if claim.bound is None else f"{claim.bound:.3g}",
                _verdict(claim),
            )
            for claim in experiment.claims(rows)
        ],
    )


def figures_table(experiment: Experiment, rows: FigureRows) -> TextTable:
    """Return the table of all figures of all arms: means over seeds."""
    lines = []
    names = tuple(dict.fromkeys(name for cell in rows.cells for name in rows.figures(cell)))
    for cell in rows.cells:
        for arm in rows.arms(cell):
            by_figure = [list(rows.values(cell, arm, name).values()) for name in names]
            if any(by_figure):
                lines.append((cell, arm, str(max(map(len, by_figure))), *(_summary(values) for values in by_figure)))
    about = "Means over seeds, with 95 % intervals if there are several; infinite if a seed did not reach the target."
    return TextTable(
        f"{experiment.name}_figures", f"{experiment.title}: all figures", about, ("cell", "arm", "seeds", *names), lines
    )


def claim_lines(experiment: Experiment, rows: FigureRows) -> Iterator[str]:
    """Yield the claims as lines for the terminal."""
    for claim in experiment.claims(rows):
        bound = "" if claim.bound is None else f", bound {claim.bound:.3g}"
        expected = _expected(claim)
        expected = f" (expected {expected}{bound})" if expected != NOTHING else ""
        yield f"  {_verdict(claim):6} {claim.says}: {in_words(claim.measured)}{expected}"


def picture(experiment: Experiment, rows: FigureRows) -> Figure:
    """Draw the experiment's main figure, by cell, with a mark for each arm."""
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
                values = [value for value in rows.values(cell, arm, experiment.shown).values() if math.isfinite(value)]
                if values:
                    mean = _mean(values)
                    arms_of = (max(mean.value - mean.low, 0.0), max(mean.high - mean.value, 0.0))
                    mark(axis, mean.value, arms_of, row, "#1f6fb4")
                else:
                    axis.text(0.02, row, "never", va="center", transform=axis.get_yaxis_transform())
            axis.set_yticks(range(len(arms)), arms)
            axis.set_ylim(len(arms) - 0.5, -0.5)
            axis.set_title(cell, fontsize=10)
            axis.set_xlabel(experiment.shown)
        for axis in axes[len(cells) :]:
            axis.set_visible(False)
    return figure


def in_words(estimate: Estimate) -> str:
    """Return the estimate with its interval, such as `1.34 [1.29, 1.38]`."""
    if math.isnan(estimate.value):
        return NOTHING
    value = f"{estimate.value:.3g}"
    if estimate.low == estimate.high or not (math.isfinite(estimate.low) and math.isfinite(estimate.high)):
        return value
    return f"{value} [{estimate.low:.3g}, {estimate.high:.3g}]"


def _expected(claim: Claim) -> str:
    if claim.least == claim.most:
        return f"{claim.least:g}"
    least = f">= {claim.least:g}" if math.isfinite(claim.least) else ""
    most = f"<= {claim.most:g}" if math.isfinite(claim.most) else ""
    return " and ".join(filter(None, (least, most))) or NOTHING


def _verdict(claim: Claim) -> str:
    if math.isnan(claim.measured.value):
        return "open"
    if _expected(claim) == NOTHING:
        return "-"
    return "yes" if claim.holds else "NO"


def _mean(values: Sequence[float]) -> Estimate:
    """Return the geometric mean of positive values, else the arithmetic mean."""
    if min(values) > 0:
        return mean_ratio(np.array(values))
    return Estimate(float(np.mean(values)), min(values), max(values))


def _summary(values: Sequence[float]) -> str:
    if not values:
        return NOTHING
    missed = sum(not math.isfinite(value) for value in values)
    reached = [value for value in values if math.isfinite(value)]
    if not reached:
        return "never"
    text = in_words(_mean(reached)) if len(set(reached)) > 1 else f"{reached[0]:.3g}"
    return f"{text}, {missed} of {len(values)} never" if missed else text


def _marks(rows: FigureRows) -> str:
    times, numbers = ({getattr(row, name) for row in rows.all} for name in ("time", "numbers"))
    return f"Time: {', '.join(sorted(times))}. Gradients: {', '.join(sorted(numbers))}."
