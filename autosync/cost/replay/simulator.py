"""The simulator that replays a step, with physical coefficients calibrated from a few records."""

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np

from autosync.cost.calibrated import Calibrated
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.calibration import Family, calibrate
from autosync.cost.replay.figures import StepFigures, step_figures
from autosync.cost.replay.overlap import Span, StepOverlap, link_spans, overlap_step, step_overlap
from autosync.cost.replay.step import ReplayContext, ReplayedStep, context_of
from autosync.cost.replay.trace import predict_trace
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, Link, ModelSpec, Strategy
from autosync.stats.drift import Timed
from autosync.stats.noise import robust_error_of_median

MOST_RECORDS = 160
"""The maximum number of records for calibration. If there are more, the heaviest are taken, evenly spaced, because a
few records suffice for a few coefficients."""


@final
class Replay(Calibrated[ReplayCoefficients]):
    """Predicts by replaying the step."""

    IN_WORDS = "a Replay"

    def step(self, model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> ReplayedStep:
        """The step to replay. Raises `SpecError` if the strategy does not fit the model and the cluster."""
        return next(self._steps(model, cluster, [strategy]))

    def figures(self, model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> StepFigures:
        """All figures of the replay of one step. Raises `SpecError` as `predict` does."""
        return next(self.all_figures(model, cluster, [strategy]))

    def all_figures(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> Iterator[StepFigures]:
        """The `figures` of each strategy, in order; shared data is computed once."""
        return (step_figures(step, self.coefficients) for step in self._steps(model, cluster, strategies))

    def overlap(self, model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> StepOverlap:
        """The communication hidden under passes. Raises `SpecError` as `predict` does."""
        return step_overlap(overlap_step(context_of(model, cluster, strategy), strategy), self.coefficients)

    def links(self, model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> list[tuple[Link, tuple[Span, ...]]]:
        """The times at which links carry messages, in the step of `overlap`. Raises `SpecError` as `predict` does."""
        return link_spans(overlap_step(context_of(model, cluster, strategy), strategy), self.coefficients)

    def trace(self, model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> dict[str, Any]:
        """The step as a Chrome trace. Raises `SpecError` as `predict` does."""
        return predict_trace(self.step(model, cluster, strategy), self.coefficients)

    def _steps(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> Iterator[ReplayedStep]:
        contexts = dict[tuple[tuple[str, ...], tuple[str, ...]], ReplayContext]()
        for strategy in strategies:
            shared = (strategy.replicas, strategy.rows_apart)
            if shared not in contexts:
                contexts[shared] = context_of(model, cluster, strategy)
            yield contexts[shared].step(strategy)

    @staticmethod
    def _kind() -> type[ReplayCoefficients]:
        return ReplayCoefficients

    def _step_seconds(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        seconds = [step.seconds(self.coefficients) for step in self._steps(model, cluster, strategies)]
        return np.maximum(np.array(seconds, dtype=np.float64), 1e-9)

    def _fit(self, timed: Timed) -> ReplayCoefficients:
        heavy, families = timed.heaviest(MOST_RECORDS), []
        errors = np.array([robust_error_of_median(record.step_seconds) for record in heavy.records])
        for model, cluster, places, strategies in heavy.families():
            steps, occasions = list(self._steps(model, cluster, strategies)), heavy.occasions[places]
            for occasion in np.unique(occasions):
                members = np.flatnonzero(occasions == occasion)
                at = places[members]
                families.append(
                    Family([steps[member] for member in members], heavy.log_seconds[at], errors[at], heavy.weights[at])
                )
        return calibrate(families, self.prior)
