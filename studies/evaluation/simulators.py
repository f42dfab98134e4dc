"""The evaluated simulators, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Protocol, TypeAlias, final

from autosync.cost import PRIORS, REPLAY_PRIORS, AnalyticSimulator, Blended, CascadeSimulator, Replay, Simulator
from autosync.numeric import FloatArray
from autosync.simulator.learned import LearnedSimulator
from autosync.simulator.networks import NETWORKS
from autosync.simulator.settings import Ablation
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from studies.evaluation.tasks import ABLATIONS, AS_IT_IS, EXPERIMENTS

Records = Sequence[RuntimeRecord]

WITHHELD = dict(
    zip(
        (AS_IT_IS, *ABLATIONS),
        (Ablation(), Ablation(shuffle_variables=True), Ablation(without_replay=True), Ablation(without_topology=True)),
        strict=True,
    )
)


class Evaluated(Protocol):
    """The interface of a simulator in an evaluation."""

    def fit(self, records: Records, validation: Records) -> None:
        """Fit to `records`; `validation` may decide when to stop, and may be empty."""
        ...

    def adjust(self, records: Records) -> Evaluated:
        """Return a copy of this simulator adjust to `records`, as in a search that starts from this simulator."""
        ...

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return log step seconds (n,), and their standard deviations (n,) or None."""
        ...


@final
class ClosedForm:
    """A simulator with coefficients to fit and without standard deviations. An adjustment is another fit."""

    def __init__(self, make: Callable[[], Simulator]) -> None:
        self._make, self._records = make, tuple[RuntimeRecord, ...]()
        self.simulator = make()

    def fit(self, records: Records, validation: Records) -> None:
        del validation
        self._records = tuple(records)
        self.simulator.fit(records)

    def adjust(self, records: Records) -> ClosedForm:
        again = ClosedForm(self._make)
        again.fit((*self._records, *records), ())
        return again

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        return self.simulator.predict(model, cluster, strategies), None


@final
class EvaluatedNetwork:
    """A learned simulator in an evaluation."""

    def __init__(self, simulator: LearnedSimulator) -> None:
        self.simulator = simulator

    def fit(self, records: Records, validation: Records) -> None:
        self.simulator.fit(records, validation=validation or None)

    def adjust(self, records: Records) -> EvaluatedNetwork:
        with TemporaryDirectory() as folder:
            self.simulator.save(folder)
            again = LearnedSimulator.load(folder)
        again.fit(records)
        return EvaluatedNetwork(again)

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        return self.simulator.predict_with_spread(model, cluster, strategies)


@final
class Builder:
    """Makes a simulator from a seed and one of `ablations`; without `random`, all seeds give the same simulator.

    `version` is part of the keys of results. Raise it by one whenever predictions may differ from before, so that
    results of older code are kept but not mistaken for new ones.

    The simulator takes part in the experiments `only`, by default all. A simulator that predicts the same as another
    one for the best candidates takes part only in the measurement of speed.
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
            raise ValueError(f"An ablation must be one of {', '.join((AS_IT_IS, *self.ablations))}, not {ablation!r}.")
        return self._build(seed, ablation)


Builders: TypeAlias = Mapping[str, Builder]

COSTED = 3
"""Version of the step costs that all simulators use. Since version 3, messages in parallel with paced passes cost
less."""


def builders_for(framework: str | None) -> Builders:
    """Return the simulators for records of `framework`, which is named as in records.

    They are in the order of tables' rows. Targets apply to the first one, which ships with the program.
    """

    def make_learned(network: str, seed: int, ablation: str = AS_IT_IS) -> LearnedSimulator:
        return LearnedSimulator(Blended(framework), network, seed, ablation=WITHHELD[ablation])

    def make_network(network: str) -> Builder:
        def build(seed: int, ablation: str) -> Evaluated:
            return EvaluatedNetwork(make_learned(network, seed, ablation))

        return Builder(build, random=True, ablations=ABLATIONS, version=COSTED)

    def make_closed_form(make: Callable[[], Simulator]) -> Builder:
        return Builder(lambda _seed, _ablation: ClosedForm(make), version=COSTED)

    def build_cascade(seed: int, _ablation: str) -> Evaluated:
        """Return the default simulator of a search."""
        return ClosedForm(lambda: CascadeSimulator(AnalyticSimulator(PRIORS[framework]), make_learned("linear", seed)))

    return {
        **{network: make_network(network) for network in NETWORKS},
        "blended": make_closed_form(lambda: Blended(framework)),
        "replay": make_closed_form(lambda: Replay(REPLAY_PRIORS[framework])),
        "analytic": make_closed_form(lambda: AnalyticSimulator(PRIORS[framework])),
        "drafted linear": Builder(build_cascade, random=True, only=("speed",), version=COSTED),
    }


BUILDERS: Builders = builders_for(None)
"""The simulators for TensorFlow's records, by name."""
