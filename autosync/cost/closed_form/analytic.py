"""The closed-form simulator: arithmetic on the specs with a few coefficients, and fitting these to step times.

Least squares over the logarithms of step seconds, so that errors are relative. Positive coefficients are sought as
logarithms and held near the prior by a ridge; records far off count by Cauchy's loss, so that outliers weigh little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from autosync.cost.calibrated import Calibrated
from autosync.cost.closed_form.loads import Loads, loads_by_replicas
from autosync.cost.closed_form.step_time import step_seconds
from autosync.cost.coefficients import Coefficients
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.stats.occasions import Timed, drifts_of, occasions_of

ERROR = 0.05
"""Relative error expected of the closed form; `OUTLIER` times that is far off."""
OUTLIER = 3.0
PRIOR_LOG = 1.5
"""How far a machine's speed may well be from the prior: a factor e^1.5 = 4.5."""
PRIOR_LOG_RATIO = 1.0
"""How far one coefficient may well be from the prior once the machine's speed is accounted for: a factor e."""
PRIOR_OVERLAP = 0.3
LARGEST_LOG = 9.0
SMALLEST_PRIOR = 1e-15


@dataclass(frozen=True, eq=False)
class _Measured:
    """Loads of some records, the logarithms of their step seconds, and the errors expected of these, (n,)."""

    loads: Loads
    log_seconds: FloatArray
    errors: FloatArray


def calibrated(timed: Timed, prior: Coefficients) -> Coefficients:
    """The coefficients under which the closed form agrees best with records that hold a time; `prior` of none."""
    measured = list(_measured(timed))
    if not measured:
        return prior
    search = _Search.around(prior)

    def residuals(point: FloatArray, robust: Callable[[FloatArray], FloatArray]) -> FloatArray:
        candidate = search.coefficients(point)
        misfits = [(np.log(step_seconds(each.loads, candidate)) - each.log_seconds) / each.errors for each in measured]
        return np.concatenate([robust(np.concatenate(misfits)), search.ridge(point)])

    point, bounds = search.start, search.bounds
    # Huber's loss finds the way from a prior that is far off; Cauchy's then lets go of the outliers.
    for robust in (_huber, _cauchy):
        point = least_squares(residuals, point, bounds=bounds, args=(robust,), max_nfev=60).x
    return search.coefficients(point)


@dataclass(frozen=True, eq=False)
class _Search:
    """Points around a prior: a logarithmic factor for each positive coefficient, one for the machine, the overlap.

    The machine's factor has no effect of its own: the ridge ties the CPU coefficients to it, so that a slow machine's
    first record moves all of them and keeps their ratios.
    """

    names: tuple[str, ...]
    values: FloatArray
    overlap: float

    @classmethod
    def around(cls, prior: Coefficients) -> _Search:
        values = asdict(prior)
        overlap = values.pop("overlap")
        return cls(tuple(values), np.maximum(list(values.values()), SMALLEST_PRIOR), overlap)

    @property
    def start(self) -> FloatArray:
        return np.append(np.zeros(len(self.names) + 1), np.clip(self.overlap, 1e-3, 1 - 1e-3))

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        logs = np.full(len(self.names) + 1, LARGEST_LOG)
        return np.append(-logs, 0.0), np.append(logs, 1.0)

    def coefficients(self, point: FloatArray) -> Coefficients:
        found = dict(zip(self.names, map(float, self.values * np.exp(point[:-2])), strict=True))
        return Coefficients(**found, overlap=float(np.clip(point[-1], 0.0, 1.0)))

    def ridge(self, point: FloatArray) -> FloatArray:
        on_machine = np.array([not name.startswith("gpu_") for name in self.names])
        machine = np.where(on_machine, point[-2], 0.0)
        spread = np.where(on_machine, PRIOR_LOG_RATIO, PRIOR_LOG)
        ends = [point[-2] / PRIOR_LOG, (point[-1] - self.overlap) / PRIOR_OVERLAP]
        return np.concatenate([(point[:-2] - machine) / spread, ends])


def _measured(timed: Timed) -> Iterator[_Measured]:
    errors = ERROR / np.sqrt(timed.weights)
    for model, cluster, members, strategies in timed.families():
        for chosen, _, loads in loads_by_replicas(model, cluster, strategies):
            places = members[chosen]
            yield _Measured(loads, timed.log_seconds[places], errors[places])


def _huber(errors: FloatArray) -> FloatArray:
    """Residuals whose squares are twice the pseudo-Huber loss of `errors`: linear far out."""
    return np.asarray(errors * np.sqrt(2 / (np.sqrt(1 + (errors / OUTLIER) ** 2) + 1)))


def _cauchy(errors: FloatArray) -> FloatArray:
    """Residuals whose squares are twice Cauchy's loss of `errors`: logarithmic far out."""
    return np.asarray(np.sign(errors) * OUTLIER * np.sqrt(np.log1p((errors / OUTLIER) ** 2)))


@final
class AnalyticSimulator(Calibrated[Coefficients]):
    """Predicts with `step_seconds`."""

    IN_WORDS = "an AnalyticSimulator"

    @staticmethod
    def _kind() -> type[Coefficients]:
        return Coefficients

    def _step_seconds(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        predicted = np.empty(len(strategies))
        for positions, _, loads in loads_by_replicas(model, cluster, strategies):
            predicted[positions] = step_seconds(loads, self.coefficients)
        return predicted

    def _fitted(self, timed: Timed) -> Coefficients:
        return calibrated(timed, self.prior)


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
    told = Timed.of([records[place] for place in known])
    simulator = AnalyticSimulator()
    simulator.fit(told.records)
    residuals = told.log_seconds.copy()
    for model, cluster, places, strategies in told.families():
        residuals[places] -= simulator.predict(model, cluster, strategies)
    found = np.round(drifts_of(residuals, occasions[known], told.weights), DIGITS)
    for occasion, drift in zip(occasions[known], found, strict=True):
        drifts[occasions == occasion] = drift
    return drifts
