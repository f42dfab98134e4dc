"""Occasions: what was timed in one go. A machine's mood changes from one to the next, for all strategies about alike.

Over 60 visits of the dataset's cells, of about 20 trials each, steps took 7 % more or less (standard deviation) from
one visit to another, as much as a simulator that has learned errs by within one; with that taken off, a tenth of the
strategies timed twice differ by over 11 %, before by over 19 %. So times of different occasions are not compared before
what is common to each has been taken off.

Notation: n records, e (n,) what they took over what was expected, in log seconds. Records of one model, cluster and
occasion o share a drift d_o ~ N(0, DRIFT^2) about the level of their model and cluster; each has an error of its own
~ N(0, ERROR^2). With m_o the median of e on o and v_o = DRIFT^2 + ERROR^2 / n_o, the level is the mean of m_o weighted
by 1 / v_o, and d_o is expected to be (m_o - level) DRIFT^2 / v_o.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autosync.cost.weights import weighted_median
from autosync.spec import RuntimeRecord

__all__ = ["drifts_of", "occasions_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PAUSE_SECONDS = 1200.0
"""The longest pause in an occasion, in seconds; a few of an occasion's records, drawn at random, still are of one."""
DRIFT, ERROR = 0.07, 0.08


def occasions_of(records: Sequence[RuntimeRecord]) -> IntArray:
    """The number of each record's occasion, (n,): of one run's trials of one model and cluster, without a pause."""
    by_run: dict[tuple[str, str, str], list[int]] = {}
    for place, record in enumerate(records):
        by_run.setdefault((record.model.digest, record.cluster.digest, record.run), []).append(place)
    found = np.zeros(len(records), dtype=np.int64)
    number = -1
    for places in by_run.values():
        ended = -np.inf
        for place in sorted(places, key=lambda place: records[place].started_at):
            number += records[place].started_at - ended > PAUSE_SECONDS
            found[place] = number
            ended = max(ended, records[place].started_at + records[place].total_seconds)
    return found


def drifts_of(residuals: FloatArray, occasions: IntArray, weights: FloatArray) -> FloatArray:
    """How far each record's occasion drifted from the others, in log seconds, (n,). All are of one model and cluster.

    `residuals` are e, and `weights`, (n,) too, say how much each record counts.
    """
    numbers, own = np.unique(occasions, return_inverse=True)
    if len(numbers) < 2:
        return np.zeros(len(residuals))
    members = [np.flatnonzero(own == number) for number in range(len(numbers))]
    medians = np.array([weighted_median(residuals[places], weights[places]) for places in members])
    variances = DRIFT**2 + ERROR**2 / np.array([weights[places].sum() for places in members])
    level = np.average(medians, weights=1 / variances)
    return np.asarray(((medians - level) * DRIFT**2 / variances)[own])
