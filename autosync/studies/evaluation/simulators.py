"""The simulators that are evaluated, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Protocol, TypeAlias, final

import numpy as np
import numpy.typing as npt

from autosync.cost import AnalyticSimulator, Blended, Drafted, Replay, Simulator
from autosync.simulator.learned import LearnedSimulator
from autosync.simulator.networks import NETWORKS
from autosync.simulator.settings import Ablation
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.studies.evaluation.tasks import ABLATIONS, AS_IT_IS, EXPERIMENTS

FloatArray = npt.NDArray[np.float64]
Records = Sequence[RuntimeRecord]

WITHHELD = dict(
    zip(
        (AS_IT_IS, *ABLATIONS),
        (Ablation(), Ablation(shuffle_variables=True), Ablation(without_replay=True), Ablation(without_topology=True)),
        strict=True,
    )
)


class Evaluated(Protocol):
    """A simulator as an evaluation sees it."""

    def fit(self, records: Records, validation: Records) -> None:
        """Learn from `records`; `validation` may choose when to stop, and be empty."""
        ...

    def adjusted(self, records: Records) -> Evaluated:
        """This simulator, adjusted to `records` as a search does that begins with it; itself it stays as it is."""
        ...

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """Log step seconds (n,), and their standard deviations (n,) where the simulator knows them."""
        ...


@final
class ClosedForm:
    """A simulator with coefficients to fit and no opinion on how sure it is. It is adjusted by another fit."""

    def __init__(self, make: Callable[[], Simulator]) -> None:
        self._make, self._records = make, tuple[RuntimeRecord, ...]()
        self.simulator = make()

    def fit(self, records: Records, validation: Records) -> None:
        del validation
        self._records = tuple(records)
        self.simulator.fit(records)

    def adjusted(self, records: Records) -> ClosedForm:
        again = ClosedForm(self._make)
        again.fit((*self._records, *records), ())
        return again

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        return self.simulator.predict(model, cluster, strategies), None


@final
class Learned:
    """A learned simulator."""

    def __init__(self, simulator: LearnedSimulator) -> None:
        self.simulator = simulator

    def fit(self, records: Records, validation: Records) -> None:
        self.simulator.fit(records, validation=validation or None)

    def adjusted(self, records: Records) -> Learned:
        with TemporaryDirectory() as folder:
            self.simulator.save(folder)
            again = LearnedSimulator.load(folder)
        again.fit(records)
        return Learned(again)

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        return self.simulator.predict_with_spread(model, cluster, strategies)


@final
class Builder:
    """Makes a simulator from a seed and one of `ablations`; one that is not `random` is the same for every seed.

    `version` goes into the keys of its results: raise it by one whenever what it predicts may be another than before,
    so that results of older code are kept, and not taken for its own.

    It is asked for all experiments, or for those of `only`: what predicts as another does where it counts is asked for
    its speed.
    """

    def __init__(
        self,
        build: Callable[[int, str], Evaluated],
        random: bool = False,
        ablations: Sequence[str] = (),
        only: Sequence[str] = EXPERIMENTS,
        version: int = 1,
    ) -> None:
        self._build, self.random, self.ablations, self.only = build, random, tuple(ablations), tuple(only)
        self.version = version

    def __call__(self, seed: int, ablation: str = AS_IT_IS) -> Evaluated:
        if ablation not in (AS_IT_IS, *self.ablations):
            raise ValueError(f"An ablation is one of {', '.join((AS_IT_IS, *self.ablations))}, not {ablation!r}.")
        return self._build(seed, ablation)


Builders: TypeAlias = Mapping[str, Builder]

COSTED = 3
"""Version of what all of them take a step to cost. From 3 on messages beside paced passes cost less."""


def _learned(network: str) -> Builder:
    def build(seed: int, ablation: str) -> Evaluated:
        return Learned(LearnedSimulator(network=network, seed=seed, ablation=WITHHELD[ablation]))

    return Builder(build, random=True, ablations=ABLATIONS, version=COSTED)


def _drafted(seed: int, _ablation: str) -> Evaluated:
    """The simulator that a search has unless told otherwise."""
    return ClosedForm(lambda: Drafted(AnalyticSimulator(), LearnedSimulator(network="linear", seed=seed)))


BUILDERS: Builders = {
    **{network: _learned(network) for network in NETWORKS},
    "blended": Builder(lambda _seed, _ablation: ClosedForm(Blended), version=COSTED),
    "replay": Builder(lambda _seed, _ablation: ClosedForm(Replay), version=COSTED),
    "analytic": Builder(lambda _seed, _ablation: ClosedForm(AnalyticSimulator), version=COSTED),
    "drafted linear": Builder(_drafted, random=True, only=("speed",), version=COSTED),
}
"""The simulators, in the order of tables' rows; targets are held against the first, which comes with the program."""
