"""The simulator that learns: a base simulator plus an ensemble of networks that predict what the base misses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt
import torch

from autosync.cost import Blended, Simulator
from autosync.errors import SpecError
from autosync.simulator.ensemble import Teaching, calibrated_spread, family_error, taught
from autosync.simulator.examples import data_digest, examples_of, family_counts, family_key
from autosync.simulator.networks import network_called
from autosync.simulator.saved import Knowledge, Saved, read_saved, write_saved
from autosync.simulator.settings import NOTHING_WITHHELD, Ablation, TrainingSettings
from autosync.simulator.streamed import STREAMING, Stream, Taught
from autosync.simulator.view import View
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.stats.occasions import Timed

FloatArray = npt.NDArray[np.float64]


@final
class LearnedSimulator:
    """Predicts `base` plus what a network adds; without records, exactly `base`.

    `network` is one of `NETWORKS`. With a replay in the base, networks also read what it says of the step and
    its variables. `fit` also fits `base`. The same seed and records give the same numbers: each `fit` starts anew,
    or from the checkpoint if the simulator was loaded, so that what was learned there is kept and adjusted.
    Times of stopped trials are lower bounds, but are learned as they are: that they are slow is what matters.
    """

    def __init__(
        self,
        base: Simulator | None = None,
        network: str = "linear",
        seed: int = 0,
        settings: TrainingSettings | None = None,
        ablation: Ablation = NOTHING_WITHHELD,
    ) -> None:
        """`base` is `Blended` unless given, and `settings` the network's own.

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
        """Log step seconds (n,). Raises `SpecError` when a strategy does not fit the model and the cluster."""
        return self.predict_with_spread(model, cluster, strategies)[0]

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of log step seconds, float64 (n,) each.

        The measured time of 90 % of strategies like those learned from is within 1.645 deviations.
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
        """Learn from `records`; `validation` only says when a network has learned enough, and how sure to be of it.

        Without it, each member of the ensemble leaves out some of the records for that.
        """
        timed = Timed.of(records, weights)
        judges = [record for record in validation or () if record.timed]
        left = self._left_to_base(timed)
        if weights is None:
            self.base.fit(left)
        else:
            self.base.fit(left, timed.weights.tolist())
        self._known = self._start
        if not timed.records:
            return
        # Both are taken together, since they tell of the same occasions.
        count = len(timed.records)
        weights_of_both = np.concatenate([timed.weights, np.ones(len(judges))])
        both = examples_of(Timed([*timed.records, *judges], weights_of_both), self.view)
        families, digest = family_counts(timed.records), data_digest(timed.records)
        kinds = tuple({record.kind for record in timed.records})
        self._learn(Taught(both, count, families, digest, kinds))

    def fit_stream(self, stream: Stream) -> None:
        """Learn from records that come in blocks, of which only their pooled inputs are kept, on disk.

        The networks that read no more than those are the linear one's kind; it learns as `fit` does from the same
        records in the same order, up to rounding. Raises `SpecError` for another network, and after `load`.
        """
        self.check_streams()
        self.base.fit(stream.for_base)
        self._known = self._start
        self._learn(stream.taught(self.view))

    def check_streams(self) -> None:
        """Raise `SpecError` when records cannot be streamed into this simulator."""
        if self.network != STREAMING or self._start.ensemble is not None:
            raise SpecError(f"Records are streamed into a new network {STREAMING!r}, not into {self.network!r}.")

    def _learn(self, given: Taught) -> None:
        earlier, count = self._start.ensemble, given.count
        examples = given.both.take(range(count))
        judged = given.both.take(range(count, len(given.both))) if count < len(given.both) else None
        teaching = Teaching(self._network, self.settings, examples, judged, earlier)
        ensemble, held = taught(teaching, torch.Generator().manual_seed(self.seed))
        level = None
        if earlier is None:
            targets = examples.targets
            level = family_error((targets.measured - targets.base).numpy(), targets.occasions.numpy())
        before = self._start.spread if earlier else None
        self._known = Knowledge(
            ensemble,
            calibrated_spread(held, given.families, level, before),
            self._start.record_count + count,
            given.digest,
            tuple(sorted({*self._start.kinds, *given.kinds})),
        )

    @property
    def record_count(self) -> int:
        """How many records it has learned from."""
        return self._known.record_count

    @property
    def data_digest(self) -> str:
        """Identity of the records that it has learned from last."""
        return self._known.data_digest

    def save(self, directory: str | Path) -> None:
        """Write everything learned to `directory`, the base's state too when it is `Restorable`."""
        saved = Saved(self.network, self.seed, self.settings, self.ablation, self.base, self._known)
        write_saved(Path(directory), saved)

    @classmethod
    def load(cls, directory: str | Path, base: Simulator | None = None) -> LearnedSimulator:
        """A simulator that predicts as the saved one did, and starts from there when it is fitted.

        `base` is one of the saved one's kind, restored here; it may be left out for one of
        `autosync.cost`. Raises `CheckpointError`.
        """
        saved = read_saved(Path(directory), base)
        learned = cls(saved.base, saved.network, saved.seed, saved.settings, saved.ablation)
        learned._start = learned._known = saved.known
        return learned

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the times that it was fitted to, also before it was loaded, such as *real*."""
        return self._known.kinds

    @property
    def view(self) -> View:
        """What its network reads of strategies, by the base as it is."""
        return View(self.base, self._network.detail, self.ablation)

    def _left_to_base(self, timed: Timed) -> Sequence[RuntimeRecord]:
        """The records without what the checkpoint's networks account for already, which the base must not learn too."""
        earlier = self._start.ensemble
        if earlier is None or not timed.records:
            return timed.records
        self.base.fit([])  # as it was when the checkpoint was written
        residuals = earlier.residuals(examples_of(timed, self.view).inputs).mean(axis=0)
        return [
            replace(record, step_seconds=tuple(seconds / np.exp(each) for seconds in record.step_seconds))
            for record, each in zip(timed.records, residuals.tolist(), strict=True)
        ]
