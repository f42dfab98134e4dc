"""A simulator that is fitted in a Ray actor of its own, while trials run, and predicts in this process.

Which fit predicts follows from the calls of `fit` alone, never from when one ended: the same records give the same
proposals, however fast fitting is. A call begins a fit on the records it is given, and predictions come from the fit
that the call before it began; a search that fits once a round so ranks a round's candidates by what was known one round
ago, while the measured errors of the last round are seen by the search itself. Where that fit knew too few of the
records, as before the first round, the call waits for its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from autosync.cost import Informed, Simulator, with_spread
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

FloatArray = npt.NDArray[np.float64]

ENOUGH_SHARE = 0.6
"""The least share of the records that a fit must know to rank by, when a newer one can be had."""


@final
class RemoteSimulator:
    """Ranks by fits of `simulator`. With `beside`, a fit runs while trials do, on what they leave of the processors;
    without, where trials use this node, it runs when it is needed. The predictions are the same.
    """

    def __init__(self, simulator: Informed, beside: bool) -> None:
        """Make the actor on this node, so that no lost node takes it along. This process must have joined Ray."""
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        fitter: Any = ray.remote(_Fitter).options(num_cpus=0, max_restarts=0, scheduling_strategy=here)
        self._fitter = fitter.remote(simulator, gives_way=beside)
        self._simulator = simulator
        self._known = simulator.simulator
        self._beside = beside
        self._begun: _Fit | None = None

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,). Raises `SpecError` when a strategy does not fit the model and the cluster."""
        return self._known.predict(model, cluster, strategies)

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """What `predict` gives, and how sure the fitted simulator is, if it says so."""
        return with_spread(self._known, model, cluster, strategies)

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Begin to learn from `records`; predict by the fit that the call before has begun, if that knows enough."""
        assert weights is None, "how much records count is for the simulator to say"
        before, self._begun = self._begun, _Fit(tuple(records))
        if before is None or len(before.records) < ENOUGH_SHARE * len(records):
            before = self._begun
        elif self._beside:
            self._start(self._begun)
        self._known = self._found(before)

    def _start(self, fit: _Fit) -> None:
        if fit.answer is None:
            fit.answer = self._fitter.fitted.remote(list(fit.records))

    def _found(self, fit: _Fit) -> Simulator:
        """The simulator that the fit found, once it is over; if its actor has died, it is fitted here."""
        self._start(fit)
        try:
            found: Simulator = ray.get(fit.answer)
        except RayActorError:
            self._simulator.fit(fit.records)
            found = self._simulator.simulator
        return found


@dataclass
class _Fit:
    records: tuple[RuntimeRecord, ...]
    answer: Any = None


@final
class _Fitter:
    """The part that runs in the actor."""

    def __init__(self, simulator: Informed, gives_way: bool) -> None:
        self._simulator = simulator
        self._gives_way = gives_way

    def fitted(self, records: Sequence[RuntimeRecord]) -> Simulator:
        """The simulator within, fitted; Ray sends a copy of it."""
        if self._gives_way:
            _give_way()
        self._simulator.fit(records)
        return self._simulator.simulator


def _give_way() -> None:
    """Let this thread, and those it starts, have only what all others leave of the processors."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)
