"""The closed-form simulator: arithmetic on the specs with a few coefficients, which are fitted to step times.

The fit is a least-squares fit of log step seconds, so that errors are relative. Positive coefficients are fitted as
logarithms, and a ridge holds them near the prior. Outliers weigh little, because of Cauchy's loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import final

import numpy as np
from scipy.optimize import least_squares

from autosync.cost.calibrated import Calibrated
from autosync.cost.closed_form.loads import ColumnLoads, loads_by_replicas
from autosync.cost.closed_form.step_time import step_seconds
from autosync.cost.coefficients import Coefficients
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.stats.drift import Timed, drifts_of, occasions_of

ERROR = 0.05
"""Expected relative error of the closed form; from `OUTLIER` times that on, a record counts as an outlier."""
OUTLIER = 3.0
PRIOR_LOG = 1.5
"""The standard deviation of a machine's log speed around the prior: a factor e^1.5 = 4.5."""
PRIOR_LOG_RATIO = 1.0
"""The standard deviation of one coefficient's logarithm, apart from the machine's speed: a factor e."""
PRIOR_OVERLAP = 0.3
LARGEST_LOG = 9.0
SMALLEST_PRIOR = 1e-15


@dataclass(frozen=True, eq=False)
class _Measurement:
    """The loads of n records, the logarithms of their step seconds, and the expected errors of these, (n,)."""

    loads: ColumnLoads
    log_seconds: FloatArray
    errors: FloatArray


def calibrate(timed: Timed, prior: Coefficients) -> Coefficients:
    """Fit the coefficients under which the closed form agrees best with timed records; `prior` if there are none."""
    measurements = list(_measurements(timed))
    if not measurements:
        return prior
    search = _Search.around(prior)

    def residuals(point: FloatArray, robust: Callable[[FloatArray], FloatArray]) -> FloatArray:
        candidate = search.coefficients(point)
        misfits = [
            (np.log(step_seconds(family.loads, candidate)) - family.log_seconds) / family.errors
            for family in measurements
        ]
        return np.concatenate([robust(np.concatenate(misfits)), search.ridge(point)])

    point, bounds = search.start, search.bounds
    # Huber's loss converges even from a distant prior; Cauchy's loss then discounts the outliers.
    for robust in (_huber, _cauchy):
        point = least_squares(residuals, point, bounds=bounds, args=(robust,), max_nfev=60).x
    return search.coefficients(point)


@dataclass(frozen=True, eq=False)
class _Search:
    """Points around a prior: a log factor for each positive coefficient, a log factor for the machine, the overlap.

    The machine's factor does not change predictions. The ridge ties the CPU coefficients to this factor, so that the
    first record of a slow machine moves all of them and keeps their ratios.
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
        values = dict(zip(self.names, map(float, self.values * np.exp(point[:-2])), strict=True))
        return Coefficients(**values, overlap=float(np.clip(point[-1], 0.0, 1.0)))

    def ridge(self, point: FloatArray) -> FloatArray:
        on_machine = np.array([not name.startswith("gpu_") for name in self.names])
        machine = np.where(on_machine, point[-2], 0.0)
        spread = np.where(on_machine, PRIOR_LOG_RATIO, PRIOR_LOG)
        ends = [point[-2] / PRIOR_LOG, (point[-1] - self.overlap) / PRIOR_OVERLAP]
        return np.concatenate([(point[:-2] - machine) / spread, ends])


def _measurements(timed: Timed) -> Iterator[_Measurement]:
    errors = ERROR / np.sqrt(timed.weights)
    for model, cluster, members, strategies in timed.families():
        for chosen, _, loads in loads_by_replicas(model, cluster, strategies):
            places = members[chosen]
            yield _Measurement(loads, timed.log_seconds[places], errors[places])


def _huber(errors: FloatArray) -> FloatArray:
    """Residuals whose squares are twice the pseudo-Huber loss of `errors`: linear for large errors."""
    return np.asarray(errors * np.sqrt(2 / (np.sqrt(1 + (errors / OUTLIER) ** 2) + 1)))


def _cauchy(errors: FloatArray) -> FloatArray:
    """Residuals whose squares are twice Cauchy's loss of `errors`: logarithmic for large errors."""
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

    def _fit(self, timed: Timed) -> Coefficients:
        return calibrate(timed, self.prior)


DIGITS = 3


def drifts_in_cell(records: Sequence[RuntimeRecord], tells: Sequence[bool]) -> FloatArray:
    """The drift of each record's occasion, in log seconds (n,), or 0 if unknown. All records share model and cluster.

    The closed form is fitted to the records that have a step time and whose `tells` is true; other records have no
    effect. Drifts are rounded to a thousandth, so that processors with different rounding give the same drifts.
    """
    occasions = occasions_of(records)
    known = [place for place, record in enumerate(records) if tells[place] and record.timed]
    drifts = np.zeros(len(records))
    if len(set(occasions.tolist())) < 2 or not known:
        return drifts
    timed = Timed.of([records[place] for place in known])
    simulator = AnalyticSimulator()
    simulator.fit(timed.records)
    residuals = timed.log_seconds.copy()
    for model, cluster, places, strategies in timed.families():
        residuals[places] -= simulator.predict(model, cluster, strategies)
    rounded = np.round(drifts_of(residuals, occasions[known], timed.weights), DIGITS)
    for occasion, drift in zip(occasions[known], rounded, strict=True):
        drifts[occasions == occasion] = drift
    return drifts
