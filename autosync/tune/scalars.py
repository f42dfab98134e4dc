"""The search as scalars for TensorBoard: one curve over all trials, beside what Tune writes of each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import final

from tensorboardX import SummaryWriter

from autosync.spec import RuntimeRecord
from autosync.tune.progress import Standing

__all__ = ["SCALARS", "SearchScalars"]

SCALARS = {
    "search/step_seconds": "Median step seconds of the trial; none where no step was timed.",
    "search/predicted_seconds": "What the simulator said of it beforehand.",
    "search/best_step_seconds": "Least median step seconds so far.",
    "search/best_baseline_step_seconds": "Least median step seconds of a hand-written strategy so far.",
}
"""Name and meaning of every scalar; the step is the number of the trial."""


@final
class SearchScalars:
    """Watches a campaign: called with each record. Tune's own files have one point each, since a trial is one result.

    They lie in folders of `directory`, into which this writes a file of its own: `tensorboard --logdir` shows them all.
    """

    def __init__(self, directory: Path, earlier: list[RuntimeRecord]) -> None:
        self._writer = SummaryWriter(str(directory))
        self._records: list[RuntimeRecord] = list(earlier)

    def __call__(self, record: RuntimeRecord) -> None:
        if record.outcome == "lost":
            return
        self._records.append(record)
        standing = Standing.of(self._records)
        values = (
            record.median_seconds,
            record.predicted_seconds,
            standing.best_seconds,
            standing.best_baseline_seconds,
        )
        for name, value in zip(SCALARS, values, strict=True):
            if value is not None and math.isfinite(value):
                self._writer.add_scalar(name, value, len(self._records))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
