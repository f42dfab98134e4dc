"""Simulators of a few physical coefficients that are calibrated from records."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from autosync.cost.coefficients import Coefficients, ReplayCoefficients
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, check_step_time_ranks
from autosync.spec.codec import known_fields, required
from autosync.stats.occasions import Timed

FloatArray = npt.NDArray[np.float64]
C = TypeVar("C", Coefficients, ReplayCoefficients)


class Calibrated(ABC, Generic[C]):
    """Predicts by `coefficients`; `fit` calibrates these, always starting from `prior`.

    Records of several models are fitted together, so they should come from machines alike.
    """

    IN_WORDS: ClassVar[str]

    def __init__(self, prior: C | None = None) -> None:
        self.prior: C = prior or self._kind()()
        self.coefficients: C = self.prior

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,). Raises `SpecError` when a strategy does not fit the model and the cluster, or has a
        discipline.
        """
        for each in strategies:
            check_step_time_ranks(each)
        return np.log(self._step_seconds(model, cluster, strategies))

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        self.coefficients = self._fitted(Timed.of(records, weights))

    def go_on(self) -> None:
        """Take what was fitted for the prior of the next fit."""
        self.prior = self.coefficients

    def state(self) -> dict[str, Any]:
        return {"prior": self.prior.to_json(), "coefficients": self.coefficients.to_json()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave. Raises `SpecError` when it is something else."""
        what, kind = f"The state of {self.IN_WORDS}", self._kind()
        known_fields(state, ("prior", "coefficients"), what)
        prior, coefficients = (kind.from_json(required(state, name, dict, what)) for name in ("prior", "coefficients"))
        self.prior, self.coefficients = prior, coefficients

    @staticmethod
    @abstractmethod
    def _kind() -> type[C]: ...

    @abstractmethod
    def _step_seconds(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Step seconds (n,), positive."""

    @abstractmethod
    def _fitted(self, timed: Timed) -> C:
        """The coefficients by what was timed; the prior by nothing."""
