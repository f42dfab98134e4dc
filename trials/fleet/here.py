"""Trials in this very process, on logical devices: no Ray, no network; for tests and for trying things out."""

from collections.abc import Callable
from typing import final

from autosync.spec import ClusterSpec, Decision, ModelSpec, RuntimeRecord, Strategy, TargetRecord
from trials.clock import Clock, Environment, WallClock
from trials.to_target import TargetRequest, run_to_target
from trials.trial import Realizer, Stage, TrialRequest, run_trial


@final
class LocalBackend:
    """Every worker of `cluster` is a logical device of this process, so the links are its memory.

    A step that hangs cannot be ended from within the process; the time limit holds between steps.
    """

    def __init__(
        self,
        captured: bytes,
        cluster: ClusterSpec,
        clock: Clock | None = None,
        exchange: Callable[[Strategy, Decision], float] | None = None,
    ) -> None:
        """`captured` is a model as `CapturedModel.to_bytes` wrote it. Loads TensorFlow into this process.

        With `exchange`, training to a target on a paced cluster takes virtual time: nothing is waited for, and a step
        takes as long as its passes would, and then as many seconds as that says of a strategy and a decision.
        """
        from autosync.engine.capture.captured import CapturedModel
        from autosync.engine.placement import Placement
        from autosync.engine.servers import use_logical_devices
        from autosync.engine.step.realize import Session

        use_logical_devices(len(cluster.server_devices), len(cluster.replica_devices) if cluster.paced else 0)
        session = Session(
            CapturedModel.from_bytes(captured), cluster, Placement.in_one_process(cluster), exchange=exchange
        )
        self._realizer: Realizer = session
        self._session = session
        self._stage = Stage(session.model, cluster, clock or WallClock(), Environment.here())

    @property
    def model(self) -> ModelSpec:
        return self._stage.model

    @property
    def cluster(self) -> ClusterSpec:
        return self._stage.cluster

    def run(self, request: TrialRequest) -> RuntimeRecord:
        return run_trial(self._realizer, request, self._stage)

    def train(self, request: TargetRequest) -> TargetRecord:
        """Train to a target."""
        return run_to_target(self._session.with_real_gradients(), request, self._stage)

    def close(self) -> None:
        """Do nothing: there is no other process to end."""
