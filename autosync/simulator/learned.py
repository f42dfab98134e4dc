"""The simulator that learns: a base simulator plus an ensemble that predicts what the base misses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from autosync.cost import (
    FEATURES,
    FEATURES_VERSION,
    AnalyticSimulator,
    Coefficients,
    Restorable,
    Simulator,
    feature_table,
)
from autosync.errors import SpecError
from autosync.simulator.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from autosync.simulator.examples import Normalization, examples_of
from autosync.simulator.model import LinearResidual
from autosync.simulator.train import TrainingSettings, bootstrap_weights, one_thread, train, training_pairs
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

__all__ = ["LearnedSimulator"]

PRIOR_SPREAD = 0.3
"""Standard deviation of log seconds expected of the base simulator before anything was measured."""

FloatArray = npt.NDArray[np.float64]


@final
class LearnedSimulator:
    """Predicts `base` plus a linear residual; without records, exactly `base`.

    `fit` also fits `base`, on the same records, and then learns the residual. Same seed and records, same numbers.
    Times of stopped trials are lower bounds, but are learned as they are: that they are slow is what matters.
    """

    def __init__(self, base: Simulator, seed: int = 0, settings: TrainingSettings | None = None) -> None:
        self.base = base
        self.seed = seed
        self.settings = settings or TrainingSettings()
        self._members: list[LinearResidual] = []
        self._normalization = _no_normalization()
        self._coefficients = Coefficients()
        self._record_count = 0

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,). Raises `SpecError` when a strategy does not fit the model and the cluster."""
        return self.predict_with_spread(model, cluster, strategies)[0]

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of log step seconds, float64 (n,) each.

        The deviation is the ensemble's, and what is left of the prior's after that many records.
        """
        base = self.base.predict(model, cluster, strategies)
        prior = PRIOR_SPREAD / (1 + self._record_count) ** 0.5
        if not self._members or not strategies:
            return base, np.full(len(strategies), prior)
        features = self._normalization(torch.from_numpy(feature_table(model, cluster, strategies, self._coefficients)))
        with torch.no_grad():
            residuals = np.stack([member(features).numpy() for member in self._members])
        return base + residuals.mean(axis=0), np.hypot(residuals.std(axis=0), prior)

    def fit(self, records: Sequence[RuntimeRecord]) -> None:
        self.base.fit(records)
        timed = [record for record in records if record.timed]
        self._record_count = len(timed)
        self._members = []
        if not timed:
            return
        if isinstance(self.base, AnalyticSimulator):
            self._coefficients = self.base.coefficients
        raw = examples_of(timed, self.base, self._coefficients)
        self._normalization = Normalization.of_features(raw.features)
        examples = raw.with_features(self._normalization(raw.features))
        generator = torch.Generator().manual_seed(self.seed)
        pairs = training_pairs(examples, self.settings, generator)
        with one_thread():
            for _ in range(self.settings.members):
                member = LinearResidual(len(FEATURES))
                train(member, examples, pairs, bootstrap_weights(len(timed), generator), self.settings)
                self._members.append(member)

    def save(self, directory: str | Path) -> None:
        """Write everything learned to `directory`, the base's state too when it is `Restorable`."""
        tensors = {"mean": self._normalization.mean, "scale": self._normalization.scale}
        for number, member in enumerate(self._members):
            tensors |= {f"member.{number}.{name}": tensor for name, tensor in member.state_dict().items()}
        document = {
            "model": "linear",
            "features": list(FEATURES),
            "features_version": FEATURES_VERSION,
            "coefficients": self._coefficients.to_json(),
            "members": len(self._members),
            "record_count": self._record_count,
            "seed": self.seed,
            "settings": self.settings.to_json(),
            "base": self.base.state() if isinstance(self.base, Restorable) else None,
        }
        write_checkpoint(Path(directory), tensors, document)

    @classmethod
    def load(cls, directory: str | Path, base: Simulator | None = None) -> LearnedSimulator:
        """A simulator that predicts as the saved one did. `base` is one of the saved one's kind, restored here.

        Without `base`, an `AnalyticSimulator`. Raises `CheckpointError`.
        """
        tensors, document = read_checkpoint(Path(directory))
        if document.get("features_version") != FEATURES_VERSION or document.get("features") != list(FEATURES):
            raise CheckpointError(
                f"The checkpoint knows features of version {document.get('features_version')}, but this program makes "
                f"version {FEATURES_VERSION}; fit the simulator anew."
            )
        try:
            learned = cls(_restored(base, document), document["seed"], TrainingSettings(**document["settings"]))
            learned._take(tensors, document)
        except (KeyError, TypeError, RuntimeError, SpecError) as error:
            raise CheckpointError(f"The checkpoint is damaged ({error}); fit the simulator anew.") from error
        return learned

    def _take(self, tensors: dict[str, torch.Tensor], document: dict[str, Any]) -> None:
        self._normalization = Normalization(tensors["mean"], tensors["scale"])
        self._coefficients = Coefficients.from_json(document["coefficients"])
        self._record_count = document["record_count"]
        for number in range(document["members"]):
            member = LinearResidual(len(FEATURES))
            member.load_state_dict({name: tensors[f"member.{number}.{name}"] for name in member.state_dict()})
            self._members.append(member)


def _restored(base: Simulator | None, document: dict[str, Any]) -> Simulator:
    state = document["base"]
    if base is None:
        if state is None:
            raise CheckpointError(
                "The checkpoint's base simulator keeps no state of its own; hand that simulator over as base."
            )
        base = AnalyticSimulator()
    if state is not None and isinstance(base, Restorable):
        base.restore(state)
    return base


def _no_normalization() -> Normalization:
    return Normalization(
        torch.zeros(len(FEATURES), dtype=torch.float64), torch.ones(len(FEATURES), dtype=torch.float64)
    )
