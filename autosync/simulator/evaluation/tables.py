"""Tables: a caption, a header and rows of text, written as Markdown and as CSV."""

from __future__ import annotations

import math

from autosync.simulator.evaluation.metrics import Metric
from autosync.simulator.evaluation.scores import Estimate
from autosync.stats.tables import NOTHING, percent, tenths

__all__ = ["cell_text"]


def cell_text(estimate: Estimate | None, metric: Metric) -> str:
    """A figure with its 95 % interval, such as `0.912 [0.897, 0.925]`."""
    if estimate is None or not math.isfinite(estimate.value):
        return NOTHING
    if metric.in_percent:
        figures = percent(estimate.value), tenths(100 * estimate.low), tenths(100 * estimate.high)
    else:
        figures = f"{estimate.value:.3f}", f"{estimate.low:.3f}", f"{estimate.high:.3f}"
    return f"{figures[0]} [{figures[1]}, {figures[2]}]"
