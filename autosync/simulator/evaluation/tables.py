"""Tables: a caption, a header and rows of text, written as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosync.simulator.evaluation.metrics import Metric
from autosync.simulator.evaluation.scores import Estimate

__all__ = ["NOTHING", "Table", "cell_text", "percent"]

NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """`name` names its CSV file; `about` says in a sentence or two what the rows and columns are."""

    name: str
    title: str
    about: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def markdown(self) -> str:
        """The table's title, what it is about, and its rows; or that there is nothing yet."""
        lines = [f"## {self.title}", "", self.about, ""]
        if not self.rows:
            return "\n".join([*lines, "There are no results for this yet.", ""])
        lines.append(_row(self.header))
        lines.append("|" + "---|" * len(self.header))
        lines += [_row(row) for row in self.rows]
        return "\n".join([*lines, ""])

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()


def cell_text(estimate: Estimate | None, metric: Metric) -> str:
    """A figure with its 95 % interval, such as `0.912 [0.897, 0.925]`."""
    if estimate is None or not math.isfinite(estimate.value):
        return NOTHING
    if metric.in_percent:
        figures = percent(estimate.value), _tenths(100 * estimate.low), _tenths(100 * estimate.high)
    else:
        figures = f"{estimate.value:.3f}", f"{estimate.low:.3f}", f"{estimate.high:.3f}"
    return f"{figures[0]} [{figures[1]}, {figures[2]}]"


def percent(share: float) -> str:
    return NOTHING if not math.isfinite(share) else f"{_tenths(100 * share)} %"


def _tenths(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}"  # no -0.0


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
