"""The simulator that replays a step: physical coefficients, calibrated from a few records."""

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.cost.calibrated import Calibrated
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.calibration import Family, calibrated
from autosync.cost.replay.figures import StepFigures, step_figures
from autosync.cost.replay.step import Setting, Step, setting_of
from autosync.cost.replay.trace import predicted_trace
from autosync.spec import ClusterSpec, ModelSpec, Strategy
from autosync.stats.noise import robust_error_of_median
from autosync.stats.occasions import Timed

FloatArray = npt.NDArray[np.float64]

MOST_RECORDS = 160
"""The most records to calibrate from: of more, the heaviest are taken, evenly spaced, as coefficients are few."""


@final
class Replay(Calibrated[ReplayCoefficients]):
    """Predicts by replaying the step."""

    IN_WORDS = "a Replay"

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

    @staticmethod
    def _kind() -> type[ReplayCoefficients]:
        return ReplayCoefficients

    def _step_seconds(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        seconds = [step.seconds(self.coefficients) for step in self._steps(model, cluster, strategies)]
        return np.maximum(np.array(seconds, dtype=np.float64), 1e-9)

    def _fitted(self, timed: Timed) -> ReplayCoefficients:
        heavy, families = timed.heaviest(MOST_RECORDS), []
        errors = np.array([robust_error_of_median(record.step_seconds) for record in heavy.records])
        for model, cluster, places, strategies in heavy.families():
            steps, occasions = list(self._steps(model, cluster, strategies)), heavy.occasions[places]
            for occasion in np.unique(occasions):
                own = np.flatnonzero(occasions == occasion)
                at = places[own]
                families.append(
                    Family([steps[each] for each in own], heavy.log_seconds[at], errors[at], heavy.weights[at])
                )
        return calibrated(families, self.prior)
