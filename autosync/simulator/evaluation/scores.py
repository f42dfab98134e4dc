"""Results scored: every metric over cells and seeds, with an interval from a bootstrap over strategies and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.simulator.evaluation.metrics import METRICS, Forecasts

__all__ = ["BySeed", "Estimate", "Scores", "difference", "estimate_of", "scores_of"]

FloatArray = npt.NDArray[np.float64]
BySeed = Mapping[str, Sequence[Forecasts]]
"""The forecasts of each seed for each cell, by name, all of the same strategies in the same order."""

TAIL_PERCENT = 2.5


@dataclass(frozen=True, eq=False)
class Estimate:
    """A figure of the seeds' mean over cells, each counting alike, and the same of each resample (b,)."""

    value: float
    resampled: FloatArray

    @property
    def low(self) -> float:
        return self._quantile(TAIL_PERCENT)

    @property
    def high(self) -> float:
        return self._quantile(100 - TAIL_PERCENT)

    def to_json(self) -> dict[str, float | None]:
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {name: float(value) if np.isfinite(value) else None for name, value in values.items()}

    def _quantile(self, percent: float) -> float:
        known = self.resampled[np.isfinite(self.resampled)]
        return float(np.percentile(known, percent)) if len(known) else float("nan")


Scores = Mapping[str, Estimate]
"""Estimates by the names of `METRICS`."""


def scores_of(by_seed: BySeed, resamples: int, seed: int = 0) -> Scores:
    """Score each of `METRICS`.

    A resample draws seeds, the same for all cells, and strategies within each cell, with replacement. Cells are not
    drawn: an interval speaks about these models and clusters. Forecasts of the same cells and seeds are resampled
    alike, so that their differences have intervals too.
    """
    seeds = min(map(len, by_seed.values()))
    drawn_seeds = np.random.default_rng(seed).multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    values: dict[str, list[float]] = {name: [] for name in METRICS}
    resampled: dict[str, list[FloatArray]] = {name: [] for name in METRICS}
    for cell in sorted(by_seed):
        forecasts = by_seed[cell][:seeds]
        count = len(forecasts[0].measured)
        positions = np.random.default_rng([seed, *cell.encode()]).integers(count, size=(resamples, count))
        for name, metric in METRICS.items():
            values[name].append(float(np.mean([metric.of(each) for each in forecasts])))
            by_draw = np.stack([metric.resampled(each, positions) for each in forecasts], axis=1)
            resampled[name].append((drawn_seeds * by_draw).sum(axis=1))
    return {name: Estimate(_mean(np.array(values[name])), _mean_by_row(resampled[name])) for name in METRICS}


def estimate_of(scores: Scores | None, name: str) -> Estimate | None:
    return None if scores is None else scores[name]


def difference(one: Estimate, other: Estimate) -> Estimate:
    """The difference by which `one` is more than `other`, which was resampled alike."""
    return Estimate(one.value - other.value, one.resampled - other.resampled)


def _mean(values: FloatArray) -> float:
    """The mean of the cells that a metric says something about."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _mean_by_row(columns: Sequence[FloatArray]) -> FloatArray:
    table = np.stack(columns, axis=1)
    known = np.isfinite(table)
    counts = known.sum(axis=1)
    total = np.where(known, table, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, counts, out=np.full(len(table), np.nan), where=counts > 0))
