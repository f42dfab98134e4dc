"""The closed-form simulator: arithmetic on the specs and a handful of calibrated coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.cost.calibration import calibrated
from autosync.cost.coefficients import Coefficients
from autosync.cost.loads import loads_by_replicas
from autosync.cost.step_time import step_seconds
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.spec.fields import known_fields, required

__all__ = ["AnalyticSimulator"]


@final
class AnalyticSimulator:
    """Predicts with `step_seconds`; `fit` calibrates `coefficients`, always starting from `prior`.

    Records of several models are fitted together, so they should come from machines alike.
    """

    def __init__(self, prior: Coefficients | None = None) -> None:
        self.prior = prior or Coefficients()
        self.coefficients = self.prior

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> npt.NDArray[np.float64]:
        """Log step seconds (n,). Raises `SpecError` when a strategy does not fit the model and the cluster."""
        predicted = np.empty(len(strategies))
        for positions, _, loads in loads_by_replicas(model, cluster, strategies):
            predicted[positions] = np.log(step_seconds(loads, self.coefficients))
        return predicted

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        self.coefficients = calibrated(records, self.prior, weights)

    def state(self) -> dict[str, Any]:
        return {"prior": self.prior.to_json(), "coefficients": self.coefficients.to_json()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave. Raises `SpecError` when it is something else."""
        what = "The state of an AnalyticSimulator"
        known_fields(state, ("prior", "coefficients"), what)
        prior = Coefficients.from_json(required(state, "prior", dict, what))
        self.coefficients = Coefficients.from_json(required(state, "coefficients", dict, what))
        self.prior = prior
