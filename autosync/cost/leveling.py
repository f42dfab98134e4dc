"""How far the machine drifted while a cell's trials were timed, by a closed form fitted to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autosync.cost.analytic import AnalyticSimulator
from autosync.spec import RuntimeRecord
from autosync.stats.occasions import drifts_of, occasions_of, positions_by_family

__all__ = ["drifts_in_cell"]

FloatArray = npt.NDArray[np.float64]

DIGITS = 3


def drifts_in_cell(records: Sequence[RuntimeRecord], tells: Sequence[bool]) -> FloatArray:
    """Drifts of the records' occasions, log seconds (n,): 0 where nothing tells. All are of one model and cluster.

    The closed form is fitted to the records that tell and have a step time; the others tell nothing. Drifts are rounded
    to a thousandth, so that a processor which rounds otherwise finds the same.
    """
    occasions = occasions_of(records)
    known = [place for place, record in enumerate(records) if tells[place] and record.timed]
    drifts = np.zeros(len(records))
    if len(set(occasions.tolist())) < 2 or not known:
        return drifts
    told = [records[place] for place in known]
    simulator = AnalyticSimulator()
    simulator.fit(told)
    residuals = np.log(np.array([record.median_seconds for record in told], dtype=np.float64))
    for (model, cluster), places in positions_by_family(told).items():
        residuals[places] -= simulator.predict(model, cluster, [told[place].strategy for place in places])
    found = np.round(drifts_of(residuals, occasions[known], np.ones(len(known))), DIGITS)
    for occasion, drift in zip(occasions[known], found, strict=True):
        drifts[occasions == occasion] = drift
    return drifts
