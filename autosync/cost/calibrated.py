"""Base class of simulators with a few physical coefficients, calibrated from records."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from autosync.cost.coefficients import Coefficients, ReplayCoefficients
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, check_step_time_ranks
from autosync.spec.codec import check_fields, read_required
from autosync.stats.drift import Timed

C = TypeVar("C", Coefficients, ReplayCoefficients)


class Calibrated(ABC, Generic[C]):
    """Predicts with `coefficients`; `fit` calibrates them, always starting from `prior`.

    Records of several models are fitted together, so they should come from similar machines.
    """

    IN_WORDS: ClassVar[str]

    def __init__(self, prior: C | None = None) -> None:
        self.prior: C = prior or self._kind()()
        self.coefficients: C = self.prior

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,). Raises `SpecError` if a strategy does not fit the model and the cluster, or has a
        discipline.
        """
        for strategy in strategies:
            check_step_time_ranks(strategy)
        return np.log(self._step_seconds(model, cluster, strategies))

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        self.coefficients = self._fit(Timed.of(records, weights))

    def go_on(self) -> None:
        """Use the fitted coefficients as the prior of the next fit."""
        self.prior = self.coefficients

    def state(self) -> dict[str, Any]:
        return {"prior": self.prior.to_json(), "coefficients": self.coefficients.to_json()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state()`. Raises `SpecError` if `state` is invalid."""
        owner, kind = f"The state of {self.IN_WORDS}", self._kind()
        check_fields(state, ("prior", "coefficients"), owner)
        prior, coefficients = (
            kind.from_json(read_required(state, name, dict, owner)) for name in ("prior", "coefficients")
        )
        self.prior, self.coefficients = prior, coefficients

    @staticmethod
    @abstractmethod
    def _kind() -> type[C]: ...

    @abstractmethod
    def _step_seconds(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Step seconds (n,), positive."""

    @abstractmethod
    def _fit(self, timed: Timed) -> C:
        """The coefficients fitted to the timed records; the prior if there are none."""
