"""Processes inside the Ray actors: workers with the engine's devices, and the client that drives them."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

from autosync.engine.core.contract import Captured, Runner, Session
from autosync.engine.core.pacing import Waits
from autosync.engine.core.prefetch import Reader
from autosync.engine.core.registry import engine_named
from autosync.errors import AutosyncError
from autosync.spec import ClusterSpec, DeviceProfile, KeptProfile, ModelSpec, RuntimeRecord, Strategy, TargetRecord
from autosync.zoo import build_task
from trials.clock import Clock, Environment
from trials.probe import Probing, probe_cluster
from trials.to_target import TargetRequest, run_to_target
from trials.trial import TrialRequest, TrialSetup, run_trial
from trials.workers.import_places import ImportPlace, import_from
from trials.workers.memory import FreeMemory, memory_here


@final
class WorkerProcess:
    """One worker process, whose devices wait for work."""

    def __init__(
        self,
        engine: str,
        address: str,
        cores: float,
        is_paced: bool = False,
        peers: Sequence[str] = (),
        token: str = "",
        import_places: Sequence[ImportPlace] = (),
    ) -> None:
        """Start to serve at `address` for a replica whose passes may be paced.

        `cores` is the worker's share of the cores of its node. `peers` are the addresses of all nodes.
        `token` is the secret of the set. `import_places` are searched first for modules.
        """
        import_from(import_places)
        # Threads of OpenMP otherwise spin for milliseconds after each operation, and take the cores of other workers on
        # the machine. OpenMP reads the variable when an engine's framework is loaded.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        loaded = engine_named(engine)
        self._fault: AutosyncError | None = None
        try:
            loaded.load()
            self._worker = loaded.worker(address, cores, is_paced, peers, token)
        except AutosyncError as error:
            self._fault = error  # `address` raises the error, because Ray would wrap an error of a constructor

    def address(self) -> tuple[str, bool]:
        """Return the address of the server as `host:port`, and True if it listens on all interfaces instead.

        Raises `ClusterError` if no server could listen there, and `ModelError` if this node lacks the framework.
        """
        if self._fault is not None:
            raise self._fault
        return self._worker.address, self._worker.listens_on_all_interfaces

    def offer(self, read: Reader, shard: int, shards: int) -> str:
        """Read a shard's batches here; return the token by which steps request them."""
        return self._worker.offer(read, shard, shards)

    def offer_waits(self) -> Waits:
        """Offer the waits of paced passes."""
        return self._worker.offer_waits()

    def pid(self) -> int:
        return os.getpid()

    def memory(self) -> FreeMemory:
        """Return the memory that is free for this worker."""
        return memory_here()

    def live(self) -> None:
        """Return nothing as long as the process lives, so that a waiting caller learns of its death at once."""
        threading.Event().wait()


@final
class ClientProcess:
    """The single client: captures the model, connects to the workers, builds and times steps."""

    def __init__(
        self,
        engine: str,
        import_places: tuple[ImportPlace, ...],
        trials_a_connection: int | None = None,
        token: str = "",
    ) -> None:
        """`token` is the secret of the set.

        `import_places` are searched first for modules, so that a user's model can be imported. After every
        `trials_a_connection` trials (None: the engine's number, if any) the client connects to the workers again.
        """
        # this node's GPUs belong to its worker, and a framework would take all of them
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._engine = engine_named(engine)
        self._fault: AutosyncError | None = None
        try:
            self._engine.load()
            self._client = self._engine.client(token)
        except AutosyncError as error:
            self._fault = error  # `capture` and `load` raise the error, as `WorkerProcess.address` does
        import_from(import_places)
        self._captured: Captured | None = None
        self._session: Session | None = None
        self._stage: TrialSetup | None = None
        self._training: Runner | None = None
        self._trials_a_connection = trials_a_connection or self._engine.trials_a_connection
        self._trials_left: int | None = self._trials_a_connection
        self._workers: tuple[list[str], str] = ([], "")
        self._waits: Mapping[str, Waits] | None = None

    def pid(self) -> int:
        return os.getpid()

    def capture(
        self, model: str, gpus: int, profile: DeviceProfile | None = None, kept: KeptProfile | None = None
    ) -> bytes:
        """Build and capture the model called `model`, and profile a step; paced passes follow `profile`, if given.

        No step is profiled if `kept` belongs to the same model.

        Raises `ModelError`, and `SpecError` if `profile` does not fit the model.
        """
        self._check_loaded()
        captured: Any = self._engine.capture(build_task(model, gpus, framework=self._engine.name))
        captured = replace(captured, spec=replace(captured.spec, device_profile=profile))
        if gpus:  # replicas on GPUs have another speed than the CPU that would be profiled here
            self._captured = captured
        elif kept is not None and kept.model_digest == captured.spec.digest:
            self._captured = replace(captured, spec=replace(captured.spec, profile=kept.profile))
        else:
            self._captured = self._engine.profile(captured)
        return self._model.to_bytes()

    def load(self, captured: bytes) -> None:
        """Take a model that was captured before. Raises `ModelError` if this node lacks the framework."""
        self._check_loaded()
        self._captured = self._engine.load_captured(captured)

    def model(self) -> tuple[ModelSpec, tuple[str, ...]]:
        """Return the captured model's spec and notes."""
        return self._model.spec, self._model.notes

    def connect(self, addresses: list[str], host: str) -> None:
        """Join the workers at `addresses`; `host` is the address of this node."""
        self._client.connect(addresses, host)
        self._workers, self._trials_left = (addresses, host), self._trials_a_connection

    def probe(self, cluster: ClusterSpec) -> Probing:
        """Measure the cluster over the engine's transport. Raises `ClusterError`."""
        return probe_cluster(cluster, self._client.transport(cluster))

    def open_session(self, cluster: ClusterSpec, clock: Clock, waits: Mapping[str, Waits] | None) -> None:
        """Put the model's initial values on the workers; afterwards trials can run.

        `waits` are those that the workers of a paced cluster offer, by server device.
        """
        self._session = self._client.session(self._model, cluster, waits)
        self._waits = waits
        self._stage = TrialSetup(self._model.spec, cluster, clock, Environment.here(self._engine))
        # Everything loaded by now stays. Without the freeze, garbage collection among these objects stalls the tracing
        # of steps.
        gc.collect()
        gc.freeze()

    def open_training(self, cluster: ClusterSpec, strategy: Strategy, waits: Mapping[str, Waits] | None) -> None:
        """Place the model as `strategy` describes, to be trained by `train`. Raises `SpecError` if it does not fit.

        `waits` are as in `open_session`. With paced passes, gradients are real and delayed to their scheduled time.
        """
        self._training = self._client.training(self._model, cluster, strategy, waits)

    def train(self, what: str, *arguments: Any) -> Any:
        """Call the method `what` of the `Runner` and return its answer."""
        assert self._training is not None, "open_training comes first"
        return getattr(self._training, what)(*arguments)

    def run(self, request: TrialRequest | TargetRequest) -> RuntimeRecord | TargetRecord:
        """Run one trial."""
        assert self._stage is not None, "open_session comes first"
        if self._trials_left == 0:
            self._reconnect(self._stage)
        if self._trials_left is not None:
            self._trials_left -= 1
        assert self._session is not None
        record: RuntimeRecord | TargetRecord
        if isinstance(request, TargetRequest):
            record = run_to_target(self._session.with_real_gradients(), request, self._stage)
        else:
            record = run_trial(self._session, request, self._stage)
        if record.outcome == "failed" and request.strategy.has_collectives and self._trials_left is not None:
            self._trials_left = 0  # after a step fails in the middle, collectives are mostly refused
        # a step is a reference cycle of functions and variables, and the next trial needs the workers' memory
        gc.collect()
        return record

    def _check_loaded(self) -> None:
        if self._fault is not None:
            raise self._fault

    @property
    def _model(self) -> Captured:
        assert self._captured is not None, "capture or load comes first"
        return self._captured

    def _reconnect(self, stage: TrialSetup) -> None:
        """Release everything that belongs to the connection, and open the session again on a new one."""
        self._session = None
        gc.unfreeze()
        gc.collect()
        self.connect(*self._workers)
        self.open_session(stage.cluster, stage.clock, self._waits)
