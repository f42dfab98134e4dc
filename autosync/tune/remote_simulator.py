"""A simulator that is fitted in a Ray actor of its own while trials run, and that predicts in this process.

Only the calls of `fit` determine which fit predicts, never the moment at which a fit ends. The same records therefore
give the same proposals, however fast fitting is. A call begins a fit on its records, and predictions come from the fit
that the previous call began. A search that fits once a round thus ranks a round's candidates by the records of one
round ago; the search itself sees the measured errors of the last round. If the previous fit knew too few of the
records, as before the first round, the call waits for its own fit.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from autosync.cost import Simulator, TransferSimulator, with_spread
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

ENOUGH_SHARE = 0.6
"""The least share of the records that the previous fit must know; with fewer, a call waits for a newer fit."""


@final
class RemoteSimulator:
    """Ranks strategies by fits of `simulator`.

    With `in_parallel`, a fit runs while trials do, on processor time that trials leave idle. If the machine left too
    little of it, the fit is made in this process when it is needed. Without `in_parallel`, because trials use this
    node, a fit runs when it is needed. The predictions are the same.
    """

    def __init__(self, simulator: TransferSimulator, in_parallel: bool) -> None:
        """Start the actor on this node, so that a lost node cannot end it. This process must have joined Ray."""
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        name = f"autosync-simulator-{uuid.uuid4().hex[:6]}"  # for the dashboard; a job may have several
        fitter: Any = ray.remote(_Fitter).options(name=name, num_cpus=0, max_restarts=0, scheduling_strategy=here)
        self._fitter = fitter.remote(simulator, gives_way=in_parallel)
        self._simulator = simulator
        self._known = simulator.simulator
        self._in_parallel = in_parallel
        self._begun: _Fit | None = None

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,). Raises `SpecError` when a strategy does not fit the model and the cluster."""
        return self._known.predict(model, cluster, strategies)

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """The result of `predict`, and the uncertainty of the fitted simulator, or None if it gives none."""
        return with_spread(self._known, model, cluster, strategies)

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Begin a fit on `records`; predict by the fit that the previous call began, if it knows enough records."""
        assert weights is None, "how much records count is for the simulator to say"
        before, self._begun = self._begun, _Fit(tuple(records))
        if before is None or len(before.records) < ENOUGH_SHARE * len(records):
            before = self._begun
        elif self._in_parallel:
            self._start(self._begun)
        self._known = self._wait_for(before)

    def _start(self, fit: _Fit) -> None:
        if fit.answer is None:
            fit.answer = self._fitter.fit_simulator.remote(list(fit.records))

    def _wait_for(self, fit: _Fit) -> Simulator:
        """Return the simulator of the fit; if the actor has died or gives way too much, fit in this process."""
        if fit.made_here is not None:
            return fit.made_here
        if not self._in_parallel:
            self._start(fit)
        elif fit.answer is None or not ray.wait([fit.answer], timeout=0)[0]:
            return self._fit_here(fit)
        try:
            fitted: Simulator = ray.get(fit.answer)
        except RayActorError:
            return self._fit_here(fit)
        return fitted

    def _fit_here(self, fit: _Fit) -> Simulator:
        if fit.answer is not None:
            ray.cancel(fit.answer)  # a fit that waits for an earlier one is no longer needed
        self._simulator.fit(fit.records)
        fit.made_here = self._simulator.simulator
        return fit.made_here


@dataclass
class _Fit:
    records: tuple[RuntimeRecord, ...]
    answer: Any = None
    """A reference to the fitted simulator, once the actor was asked for it."""
    made_here: Simulator | None = None
    """The simulator that was fitted in this process; no earlier fit is needed once a later one was made here."""


@final
class _Fitter:
    """The fitting part, which runs in the actor."""

    def __init__(self, simulator: TransferSimulator, gives_way: bool) -> None:
        self._simulator = simulator
        self._gives_way = gives_way

    def fit_simulator(self, records: Sequence[RuntimeRecord]) -> Simulator:
        """Fit the simulator and return its fitted part, and Ray sends a copy of it."""
        if self._gives_way:
            _give_way()
        self._simulator.fit(records)
        return self._simulator.simulator


def _give_way() -> None:
    """Give this thread, and the threads it starts, only processor time that all others leave idle.

    Linux may group processes by session, and each group then gets an equal share, even for idle threads. So this
    process gets a session of its own, whose share is the smallest.
    """
    with suppress(OSError):  # it leads a session, or the kernel has no such groups
        os.setpgid(0, os.getpgid(os.getppid()))  # the leader of a group of processes cannot begin a session
        os.setsid()
        Path("/proc/self/autogroup").write_text("19", encoding="utf-8")
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)
