"""Runs trials in this process, on logical devices: no Ray, no network; for tests and experiments."""

from collections.abc import Callable
from typing import final

from autosync.engine.core.registry import DEFAULT, engine_named
from autosync.spec import ClusterSpec, Decision, ModelSpec, RuntimeRecord, Strategy, TargetRecord
from trials.clock import Clock, Environment, WallClock
from trials.to_target import TargetRequest, run_to_target
from trials.trial import TrialRequest, TrialSetup, run_trial


@final
class LocalBackend:
    """Runs trials on logical devices of this process, one for each worker of `cluster`, so the links are its memory.

    A step that hangs cannot be ended from within the process; the time limit is checked between steps.
    """

    def __init__(
        self,
        captured: bytes,
        cluster: ClusterSpec,
        clock: Clock | None = None,
        exchange: Callable[[Strategy, Decision], float] | None = None,
        engine: str = DEFAULT,
    ) -> None:
        """`captured` is a model as written by `Captured.to_bytes`. Loads the framework into this process.

        With `exchange`, training to a target on a paced cluster takes virtual time: it never waits, and a step takes
        the time of its passes plus `exchange(strategy, decision)` seconds.
        """
        loaded = engine_named(engine)
        loaded.use_logical_devices(len(cluster.server_devices), len(cluster.replica_devices) if cluster.paced else 0)
        self._session = loaded.local_session(loaded.load_captured(captured), cluster, exchange)
        self._stage = TrialSetup(self._session.model, cluster, clock or WallClock(), Environment.here(loaded))

    @property
    def model(self) -> ModelSpec:
        return self._stage.model

    @property
    def cluster(self) -> ClusterSpec:
        return self._stage.cluster

    def run(self, request: TrialRequest) -> RuntimeRecord:
        return run_trial(self._session, request, self._stage)

    def train(self, request: TargetRequest) -> TargetRecord:
        """Train to a target."""
        return run_to_target(self._session.with_real_gradients(), request, self._stage)

    def close(self) -> None:
        """Do nothing: there is no other process to end."""
