"""Cells whose noise is drawn: what strategies take without it is, and each trial of one has its own.

A pool holds one trial of most strategies. So whoever searches it is never told two different times of one strategy, and
its best is the luckiest of the good ones, which nobody can know. In a drawn cell both are as they are on a cluster.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.stats import norm

from autosync.bench.ideal import drawn_times
from autosync.spec import RuntimeRecord
from autosync.tune.recorded.cells import Cell

__all__ = ["TRIALS", "drawn_cell"]

TRIALS = 16
"""Trials of each strategy, at as many quantiles of the noise, so that their median is what it takes without noise; a
search meets them in an order that its seed draws."""


def drawn_cell(cell: Cell, seed: int) -> Cell:
    """`cell` as another day might have shown it. What could not be timed stays as it is."""
    noise = cell.deviation * norm.ppf((np.arange(TRIALS) + 0.5) / TRIALS)
    trials = dict(cell.trials)
    for strategy, without in drawn_times(cell, seed).items():
        timed = next(each for each in cell.trials[strategy] if each.timed)
        trials[strategy] = tuple(_taking(timed, math.exp(without + each)) for each in noise.tolist())
    return replace(cell, trials=trials)


def _taking(record: RuntimeRecord, seconds: float) -> RuntimeRecord:
    """The record with its steps scaled to a median of `seconds`."""
    assert record.median_seconds is not None
    scale = seconds / record.median_seconds
    return replace(record, step_seconds=tuple(scale * each for each in record.step_seconds))
