"""Processes inside the Ray actors: workers that host TensorFlow servers, and the client that drives them."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

from autosync.engine.loading import load_tensorflow
from autosync.engine.training.reading_ahead import Offer, Reader
from autosync.engine.training.training import Training
from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, DeviceProfile, ModelSpec, RuntimeRecord, Strategy, TargetRecord
from trials.clock import Clock, Environment
from trials.to_target import TargetRequest, run_to_target
from trials.trial import Stage, TrialRequest, run_trial
from trials.workers.memory import Memory, memory_here

if TYPE_CHECKING:
    from autosync.engine.step.pace import Waits
    from trials.probe import Probing


@final
class WorkerProcess:
    """One worker process: a TensorFlow server that waits for work."""

    def __init__(self, address: str, cores: float, paced: bool = False, peers: Sequence[str] = ()) -> None:
        """Start the server at `address` for a replica whose passes may be `paced`.

        `cores` is the worker's share of the cores of its node. `peers` are the addresses of all nodes.
        """
        load_tensorflow()
        from autosync.engine.listening import listens_on_all_interfaces
        from autosync.engine.servers import start_server

        self._fault: ClusterError | None = None
        try:
            self._server, self._address = start_server(address, cores, int(paced), peers)
        except ClusterError as error:
            self._fault = error  # `address` raises it; Ray would wrap what a constructor raises
            return
        self._is_open = listens_on_all_interfaces(int(self._address.rpartition(":")[2]))
        self._offers: dict[int, Offer] = {}

    def address(self) -> tuple[str, bool]:
        """The address of the server as `host:port`, and whether it listens on all interfaces instead.

        Raises `ClusterError` if no server could listen there.
        """
        if self._fault is not None:
            raise self._fault
        return self._address, self._is_open

    def offer(self, read: Reader, shard: int, shards: int) -> str:
        """Read a shard's batches here and offer them to ops; return the token to ask for them by.

        A new pass over the shard ends the last one.
        """
        if shard in self._offers:
            self._offers[shard].close()
        self._offers[shard] = Offer(read, shard, shards)
        return self._offers[shard].token

    def offer_waits(self) -> Waits:
        """Offer to ops the waits that passes are paced by."""
        from autosync.engine.step.pace import offered_waits

        return offered_waits()

    def pid(self) -> int:
        return os.getpid()

    def memory(self) -> Memory:
        """The memory that this worker may still take."""
        return memory_here()

    def live(self) -> None:
        """Answer nothing as long as the process lives; what waits for the answer learns at once when it has died."""
        threading.Event().wait()


@final
class ClientProcess:
    """The one client: captures the model, connects to the workers, builds and times steps."""

    def __init__(self, import_paths: tuple[str, ...], trials_a_connection: int) -> None:
        """`import_paths` are added to the module search path, so that a user's model can be imported.

        After every `trials_a_connection` trials the workers are connected to anew: TensorFlow's workers keep what each
        step has registered with them, about 1 MB a trial, for as long as the connection lasts. That is not free either:
        see `connect`.
        """
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # this node's GPUs belong to its worker; TensorFlow would take them all
        load_tensorflow()
        sys.path[:0] = [path for path in import_paths if path not in sys.path]
        self._captured: Any = None
        self._session: Any = None
        self._stage: Stage | None = None
        self._training: Training | None = None
        self._trials_a_connection = trials_a_connection
        self._trials_left = trials_a_connection
        self._workers: tuple[list[str], str] = ([], "")
        self._waits: Mapping[str, Waits] | None = None

    def pid(self) -> int:
        return os.getpid()

    def capture(self, model: str, gpus: int, profile: DeviceProfile | None = None) -> bytes:
        """Build and capture the model called `model`, and profile a step; paced passes follow `profile`, if given.

        Raises `ModelError`, and `SpecError` where `profile` does not fit the model.
        """
        from autosync.engine.capture.capturing import capture
        from autosync.engine.capture.profile import profiled
        from autosync.engine.zoo import build_task

        captured = capture(build_task(model, gpus))
        captured = replace(captured, spec=replace(captured.spec, device_profile=profile))
        self._captured = captured if gpus else profiled(captured)  # replicas on GPUs compute at another pace
        return self._captured.to_bytes()

    def load(self, captured: bytes) -> None:
        """Take a model that was captured before."""
        from autosync.engine.capture.captured import CapturedModel

        self._captured = CapturedModel.from_bytes(captured)

    def model(self) -> tuple[ModelSpec, tuple[str, ...]]:
        """The captured model's spec and notes."""
        return self._captured.spec, self._captured.notes

    def connect(self, addresses: list[str], host: str) -> None:
        """Join the workers at `addresses`; `host` is the address of this node."""
        from autosync.engine.servers import connect

        connect(addresses, host, again=bool(self._workers[0]))
        self._workers, self._trials_left = (addresses, host), self._trials_a_connection

    def probe(self, cluster: ClusterSpec) -> Probing:
        """Measure the cluster over TensorFlow's transport. Raises `ClusterError`."""
        from autosync.engine.placement import Placement
        from autosync.engine.transfer import Transfers
        from trials.probe import probed

        return probed(cluster, Transfers(Placement.on_workers(cluster)))

    def open_session(self, cluster: ClusterSpec, clock: Clock, waits: Mapping[str, Waits] | None) -> None:
        """Put the model's initial values on the workers; from here on trials can run.

        `waits` are what the workers of a paced cluster offer, by server device.
        """
        from autosync.engine.placement import Placement
        from autosync.engine.step.realize import Session

        self._session = Session(self._captured, cluster, Placement.on_workers(cluster), waits)
        self._waits = waits
        self._stage = Stage(self._captured.spec, cluster, clock, Environment.here())
        # What is loaded by now stays; without this, collecting garbage among it stalls the tracing of steps.
        gc.collect()
        gc.freeze()

    def open_training(self, cluster: ClusterSpec, strategy: Strategy, waits: Mapping[str, Waits] | None) -> None:
        """Place the model as `strategy` says, to be trained by `train`. Raises `SpecError` when it does not fit.

        `waits` are as in `open_session`. Where passes are paced, gradients are real, and held until their time.
        """
        from autosync.engine.placement import Placement
        from autosync.engine.step.realize import Session

        session = Session(self._captured, cluster.with_real_gradients, Placement.on_workers(cluster), waits)
        self._training = Training(session, strategy)

    def train(self, what: str, *arguments: Any) -> Any:
        """Return the answer of the method `what` of `Training`."""
        assert self._training is not None, "open_training comes first"
        return getattr(self._training, what)(*arguments)

    def run(self, request: TrialRequest | TargetRequest) -> RuntimeRecord | TargetRecord:
        """Run one trial."""
        assert self._stage is not None, "open_session comes first"
        if not self._trials_left:
            self._connect_anew(self._stage)
        self._trials_left -= 1
        record: RuntimeRecord | TargetRecord
        if isinstance(request, TargetRequest):
            record = run_to_target(self._session.with_real_gradients(), request, self._stage)
        else:
            record = run_trial(self._session, request, self._stage)
        if record.outcome == "failed" and request.strategy.has_collectives:
            self._trials_left = 0  # after a step that fails in the middle collectives are mostly refused
        gc.collect()  # a step is a cycle of functions and variables; the next trial needs the workers' memory
        return record

    def _connect_anew(self, stage: Stage) -> None:
        """Let go of all that belongs to the connection, and open the session again on a new one."""
        self._session = None
        gc.unfreeze()
        gc.collect()
        self.connect(*self._workers)
        self.open_session(stage.cluster, stage.clock, self._waits)
