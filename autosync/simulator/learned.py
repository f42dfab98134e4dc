"""The learned simulator: a base simulator plus an ensemble of networks that predict the base's errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import torch

from autosync.cost import Blended, Simulator
from autosync.errors import SpecError
from autosync.numeric import FloatArray
from autosync.simulator.ensemble import EnsembleFit, calibrate_spread, family_error, train_ensemble
from autosync.simulator.examples import data_digest, examples_of, family_counts, family_key
from autosync.simulator.networks import network_called
from autosync.simulator.saved import Knowledge, Saved, read_saved, write_saved
from autosync.simulator.settings import NOTHING_WITHHELD, Ablation, TrainingSettings
from autosync.simulator.streamed import STREAMING, Stream, TrainingRecords
from autosync.simulator.view import View
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.stats.drift import Timed


@final
class LearnedSimulator:
    """Predicts `base` plus a network's residual; without records, exactly `base`.

    `network` is one of `NETWORKS`. With a replay in the base, networks also read the replay's figures of the step and
    of the variables. `fit` also fits `base`. The same seed and records give the same numbers, because each `fit` starts
    from scratch, or from the checkpoint if the simulator was loaded, so that the checkpoint's knowledge is kept and
    adjusted. Times of stopped trials are lower bounds, but are learned as they are, because it only matters that they
    are slow.
    """

    def __init__(
        self,
        base: Simulator | None = None,
        network: str = "linear",
        seed: int = 0,
        settings: TrainingSettings | None = None,
        ablation: Ablation = NOTHING_WITHHELD,
    ) -> None:
        """`base` defaults to `Blended`, and `settings` to the network's own.

        Raises `SpecError` for an unknown network.
        """
        self.base = base if base is not None else Blended()
        self.network = network
        self.seed = seed
        self._network = network_called(network)
        self.settings = settings or self._network.settings
        self.ablation = ablation
        self._start = self._known = Knowledge()

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Return the log step seconds (n,). Raises `SpecError` if a strategy does not fit the model and the cluster."""
        return self.predict_with_spread(model, cluster, strategies)[0]

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the log step seconds, float64 (n,) each.

        For strategies like the training ones, 90 % of the measured times lie within 1.645 deviations.
        """
        family, ensemble = family_key(model, cluster), self._known.ensemble
        if ensemble is None or not strategies:
            base = self.base.predict(model, cluster, strategies)
            return base, self._known.spread.of(np.zeros(len(strategies)), family)
        inputs, base = self.view.of(model, cluster, strategies)
        residuals = ensemble.residuals(inputs)
        return base + residuals.mean(axis=0), self._known.spread.of(residuals.std(axis=0), family)

    def fit(
        self,
        records: Sequence[RuntimeRecord],
        weights: Sequence[float] | None = None,
        validation: Sequence[RuntimeRecord] | None = None,
    ) -> None:
        """Learn from `records`. `validation` only decides when to stop training, and calibrates the uncertainty.

        Without `validation`, each member of the ensemble leaves out some of the records for that purpose.
        """
        timed = Timed.of(records, weights)
        validation_records = [record for record in validation or () if record.timed]
        left = self._left_to_base(timed)
        if weights is None:
            self.base.fit(left)
        else:
            self.base.fit(left, timed.weights.tolist())
        self._known = self._start
        if not timed.records:
            return
        # Encode both together, because they share occasions, and drift is estimated per occasion.
        count = len(timed.records)
        weights_of_both = np.concatenate([timed.weights, np.ones(len(validation_records))])
        examples = examples_of(Timed([*timed.records, *validation_records], weights_of_both), self.view)
        families, digest = family_counts(timed.records), data_digest(timed.records)
        kinds = tuple({record.kind for record in timed.records})
        self._learn(TrainingRecords(examples, count, families, digest, kinds))

    def fit_stream(self, stream: Stream) -> None:
        """Learn from records that arrive in blocks; only their pooled inputs are kept, on disk.

        Only networks that read nothing but pooled inputs can do so: the linear network. The result equals `fit` on the
        same records in the same order, up to rounding. Raises `SpecError` for another network, and after `load`.
        """
        self.check_streams()
        self.base.fit(stream.for_base)
        self._known = self._start
        self._learn(stream.training_records(self.view))

    def check_streams(self) -> None:
        """Raise `SpecError` if records cannot be streamed into this simulator."""
        if self.network != STREAMING or self._start.ensemble is not None:
            raise SpecError(
                f"Records can only be streamed into a new network {STREAMING!r}, not into {self.network!r}."
            )

    def _learn(self, records: TrainingRecords) -> None:
        earlier, count = self._start.ensemble, records.count
        examples = records.examples.take(range(count))
        validation = (
            records.examples.take(range(count, len(records.examples))) if count < len(records.examples) else None
        )
        ensemble_fit = EnsembleFit(self._network, self.settings, examples, validation, earlier)
        ensemble, held = train_ensemble(ensemble_fit, torch.Generator().manual_seed(self.seed))
        level = None
        if earlier is None:
            targets = examples.targets
            level = family_error((targets.measured - targets.base).numpy(), targets.occasions.numpy())
        before = self._start.spread if earlier else None
        self._known = Knowledge(
            ensemble,
            calibrate_spread(held, records.families, level, before),
            self._start.record_count + count,
            records.digest,
            tuple(sorted({*self._start.kinds, *records.kinds})),
        )

    @property
    def record_count(self) -> int:
        """The number of training records."""
        return self._known.record_count

    @property
    def data_digest(self) -> str:
        """The digest of the records of the last fit."""
        return self._known.data_digest

    def save(self, directory: str | Path) -> None:
        """Write the whole state to `directory`, including the base's state if the base is `Restorable`."""
        saved = Saved(self.network, self.seed, self.settings, self.ablation, self.base, self._known)
        write_saved(Path(directory), saved)

    @classmethod
    def load(cls, directory: str | Path, base: Simulator | None = None) -> LearnedSimulator:
        """Return a simulator that predicts like the saved one, and continues from it when fitted.

        `base` is a simulator of the saved base's kind, whose state is restored here. It can be omitted for a base of
        `autosync.cost`. Raises `CheckpointError`.
        """
        saved = read_saved(Path(directory), base)
        learned = cls(saved.base, saved.network, saved.seed, saved.settings, saved.ablation)
        learned._start = learned._known = saved.known
        return learned

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the training times, such as *real*, including those from before a load."""
        return self._known.kinds

    @property
    def view(self) -> View:
        """The inputs that the network reads of strategies, for the base in its present state."""
        return View(self.base, self._network.detail, self.ablation)

    def _left_to_base(self, timed: Timed) -> Sequence[RuntimeRecord]:
        """Return the records without the residuals that the checkpoint's networks explain, so the base does not learn
        these too.
        """
        earlier = self._start.ensemble
        if earlier is None or not timed.records:
            return timed.records
        self.base.fit([])  # back to the state in the checkpoint
        residuals = earlier.residuals(examples_of(timed, self.view).inputs).mean(axis=0)
        return [
            replace(record, step_seconds=tuple(seconds / np.exp(residual) for seconds in record.step_seconds))
            for record, residual in zip(timed.records, residuals.tolist(), strict=True)
        ]
