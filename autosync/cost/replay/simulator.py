"""The simulator that replays a step: physical coefficients, calibrated from a few records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.calibration import Family, calibrated
from autosync.cost.replay.figures import StepFigures, step_figures
from autosync.cost.replay.step import Setting, Step, setting_of
from autosync.cost.replay.trace import predicted_trace
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.spec.codec import known_fields, required
from autosync.stats.noise import robust_error_of_median
from autosync.stats.occasions import Timed

__all__ = ["Replay"]

MOST_RECORDS = 160
"""The most records to calibrate from: of more, the heaviest are taken, evenly spaced, as coefficients are few."""


@final
class Replay:
    """Predicts by replaying the step; `fit` calibrates `coefficients`, always starting from `prior`.

    Records of several models are fitted together, so they should come from machines alike.
    """

    def __init__(self, prior: ReplayCoefficients | None = None) -> None:
        self.prior = prior or ReplayCoefficients()
        self.coefficients = self.prior

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> npt.NDArray[np.float64]:
        """Log step seconds (n,). Raises `SpecError` when a strategy does not fit the model and the cluster."""
        seconds = [step.seconds(self.coefficients) for step in self._steps(model, cluster, strategies)]
        return np.log(np.maximum(np.array(seconds, dtype=np.float64), 1e-9))

    def step(self, model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> Step:
        """The step that is replayed. Raises `SpecError` when the strategy does not fit the model and the cluster."""
        return next(self._steps(model, cluster, [strategy]))

    def figures(self, model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> StepFigures:
        """What else the replay of one step says. Raises `SpecError` as `predict` does."""
        return next(self.all_figures(model, cluster, [strategy]))

    def all_figures(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> Iterator[StepFigures]:
        """`figures` of each strategy, in order; what they share is worked out once."""
        return (step_figures(step, self.coefficients) for step in self._steps(model, cluster, strategies))

    def trace(self, model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> dict[str, Any]:
        """The step as a Chrome trace. Raises `SpecError` as `predict` does."""
        return predicted_trace(self.step(model, cluster, strategy), self.coefficients)

    def _steps(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> Iterator[Step]:
        settings = dict[tuple[str, ...], Setting]()
        for strategy in strategies:
            if strategy.replicas not in settings:
                settings[strategy.replicas] = setting_of(model, cluster, strategy)
            yield settings[strategy.replicas].step(strategy)

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        timed, families = Timed.of(records, weights).heaviest(MOST_RECORDS), []
        errors = np.array([robust_error_of_median(record.step_seconds) for record in timed.records])
        for model, cluster, places, strategies in timed.families():
            steps, occasions = list(self._steps(model, cluster, strategies)), timed.occasions[places]
            for occasion in np.unique(occasions):
                own = np.flatnonzero(occasions == occasion)
                at = places[own]
                families.append(
                    Family([steps[each] for each in own], timed.log_seconds[at], errors[at], timed.weights[at])
                )
        self.coefficients = calibrated(families, self.prior)

    def state(self) -> dict[str, Any]:
        return {"prior": self.prior.to_json(), "coefficients": self.coefficients.to_json()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave. Raises `SpecError` when it is something else."""
        what = "The state of a Replay"
        known_fields(state, ("prior", "coefficients"), what)
        prior = ReplayCoefficients.from_json(required(state, "prior", dict, what))
        coefficients = ReplayCoefficients.from_json(required(state, "coefficients", dict, what))
        self.prior, self.coefficients = prior, coefficients
