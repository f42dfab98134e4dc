"""Curves of a search: scalars for TensorBoard, and metrics that Ray's head exports for Prometheus."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import final

from ray.util.metrics import Counter, Gauge
from tensorboardX import SummaryWriter

from autosync.spec import RuntimeRecord
from autosync.tune.progress import Standing

SCALARS = {
    "search/step_seconds": "Median step seconds of the trial; none where no step was timed.",
    "search/predicted_seconds": "What the simulator said of it beforehand.",
    "search/best_step_seconds": "Least median step seconds so far.",
    "search/best_baseline_step_seconds": "Least median step seconds of a baseline so far.",
}
"""Name and meaning of every scalar; the step is the number of the trial."""


@final
class SearchScalars:
    """Writes TensorBoard scalars of a campaign; called with each record.

    Tune's own TensorBoard files have one point each, because a trial is one result to Tune. They lie in folders of
    `directory`. This class writes its own file there, so that `tensorboard --logdir` shows all of them.
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


METRICS = {
    "autosync_step_seconds": "Median step seconds of the latest timed trial.",
    "autosync_best_step_seconds": "Least median step seconds so far.",
    "autosync_best_baseline_step_seconds": "Least median step seconds of a baseline so far.",
    "autosync_trials": "Trials that are over, by outcome.",
    "autosync_rank_agreement": "Share of pairs of searched strategies that the simulator ranked as measured.",
    "autosync_lanes": "Trials that can run side by side now.",
}
"""Name and meaning of every metric; each carries the tags `model` and `run`. Ray prefixes names with `ray_`."""

TAGS = ("model", "run")


@final
class SearchMetrics:
    """Exports metrics of a campaign; called with each record. This process must have joined Ray."""

    def __init__(self, model: str, run: str, lanes: Callable[[], int], earlier: list[RuntimeRecord]) -> None:
        tags = {"model": model, "run": run}
        self._gauges = {name: Gauge(name, METRICS[name], TAGS) for name in METRICS if name != "autosync_trials"}
        for gauge in self._gauges.values():
            gauge.set_default_tags(tags)
        self._trials = Counter("autosync_trials", METRICS["autosync_trials"], (*TAGS, "outcome"))
        self._trials.set_default_tags(tags)
        self._records: list[RuntimeRecord] = list(earlier)
        self._lanes = lanes

    def __call__(self, record: RuntimeRecord) -> None:
        self._records.append(record)
        self._trials.inc(tags={"outcome": record.outcome})
        standing = Standing.of(self._records)
        values = {
            "autosync_step_seconds": record.median_seconds,
            "autosync_best_step_seconds": standing.best_seconds,
            "autosync_best_baseline_step_seconds": standing.best_baseline_seconds,
            "autosync_rank_agreement": standing.rank_agreement,
            "autosync_lanes": float(self._lanes()),
        }
        for name, value in values.items():
            if value is not None and math.isfinite(value):
                self._gauges[name].set(value)
