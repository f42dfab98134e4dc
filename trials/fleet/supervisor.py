"""The supervisor: a Ray actor that owns one set of workers and runs trials on it."""

from dataclasses import dataclass, field, replace
from typing import Any, final

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from autosync.errors import AutosyncError, ClusterError, TrialError
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, TargetRecord
from trials.clock import Clock, Environment, WallClock
from trials.cluster.ray_labels import machines_of
from trials.cluster.seats import alike, seated_like
from trials.to_target import TargetRequest
from trials.trial import Stage, TrialRequest, reason_of
from trials.workers.worker_set import ProcessDiedError, SetSettings, WorkerDiedError, WorkerSet

FAILURES_IN_A_ROW = 3
"""Failed trials without a cause outside them, after which a new set of workers is started to be sure."""

ATTEMPTS = 3
"""Times in a row that a new set of workers is tried before trials are given up."""

LOOK_SECONDS = 2.0
"""Seconds between looks at the nodes during a trial."""


@dataclass(frozen=True)
class RaySettings:
    """How trials run on Ray: the set of workers, the clock, and whether links are measured first.

    `grace_seconds` is how long past its own time limit a trial may take before its processes are ended.
    """

    workers: SetSettings = field(default_factory=SetSettings)
    clock: Clock = field(default_factory=WallClock)
    probe: bool = True
    grace_seconds: float = 30.0


@dataclass(frozen=True)
class Started:
    """The answer of a supervisor that has started. `report` is the probe's, or None; `captured` refers to the model."""

    model: ModelSpec
    notes: tuple[str, ...]
    cluster: ClusterSpec
    report: dict[str, Any] | None
    captured: Any


@final
class Supervisor:
    """Runs trials on one set of workers, ends it when it hangs, and starts a new one when it loses a process.

    What a trial loses to a process or node that went away is *lost*, not failed: it says nothing of the strategy.
    """

    def __init__(self, cluster: ClusterSpec, settings: RaySettings, name: str) -> None:
        """`start` comes next; what it raises could not be told from a constructor. Actors are named after `name`."""
        self._settings = settings
        self._cluster = cluster
        self._name = name
        self._generation = 0
        self._set: WorkerSet | None = None
        self._failures = 0
        self._report: dict[str, Any] | None = None

    def start(self, model: str, captured: list[Any] | None = None) -> Started:
        """Start the workers, capture `model` (or take the one whose reference is in `captured`), and probe.

        If a process dies on the way, all are started once more.
        Raises `ModelError` or `ClusterError`, and then leaves no process behind.
        """
        try:
            return self._started(model, captured)
        except ProcessDiedError as died:
            started = self._started(model, captured)
            again = f"{died} All processes were started once more."
            return replace(started, notes=(*started.notes, again))

    def _started(self, model: str, captured: list[Any] | None) -> Started:
        self._set = self._new_set()
        try:
            if captured is None:
                self._captured = ray.put(self._set.capture(model))
            else:
                # A copy of its own: the lane that captured the model may be given up.
                self._captured = ray.put(ray.get(captured[0]))
                self._set.load(self._captured)
            spec, notes = self._set.model()
            memory = self._set.check_room()
            self._set.connect()
            if self._settings.probe:
                probing = self._set.probing()
                self._cluster, self._report = probing.cluster, dict(probing.report)
            self._set.open_session(self._cluster, self._settings.clock)
        except BaseException:
            self.close()
            raise
        self._stage = self._new_stage(spec)
        return Started(spec, (self._set.exposure, memory, *notes), self._cluster, self._report, self._captured)

    def pids(self) -> dict[str, int]:
        return self._living().pids()

    def adopt(self, cluster: ClusterSpec) -> None:
        """Let records name the figures of `cluster`, whose nodes are alike and at the same addresses."""
        self._cluster = cluster
        self._stage = self._new_stage(self._stage.model)
        if self._set is not None:
            self._set.open_session(self._cluster, self._settings.clock)

    def move(self, addresses: list[str]) -> str:
        """Run on the nodes at `addresses` from now on; return why they will not do, in words, or nothing if they do."""
        before = self._cluster
        self.close()
        self._cluster = seated_like(before, addresses)
        try:
            self._set = self._refilled(self._new_set(), moved=True)
        except (AutosyncError, RayTaskError) as error:
            self._cluster = before
            return str(error) if isinstance(error, AutosyncError) else reason_of(error)
        self._stage = self._new_stage(self._stage.model)
        return ""

    def run(self, request: TrialRequest | TargetRequest) -> RuntimeRecord | TargetRecord:
        """Run one trial, whatever becomes of it."""
        clock = self._settings.clock
        started_at, begin = clock.timestamp(), clock.now()
        limit = request.time_limit_seconds + self._settings.grace_seconds
        try:
            workers = self._living()
            record = self._watched(workers, request, limit)
        except _NodeLeft as left:
            self.close()
            outcome, reason = "lost", str(left)
        except WorkerDiedError as died:
            outcome, reason = "lost", _because(self._left() or str(died), "The trial was under way.")
            self.close()
        except GetTimeoutError:
            reason = f"The trial hung for {limit:g} s, and its processes were ended."
            missing = workers.missing(busy_client=True)
            outcome, reason = ("lost" if missing else "timed_out"), _because(missing, reason)
            self.close()
        except RayActorError:
            outcome, reason = "lost", _because(self._left(), "The client process died during the trial.")
            self.close()
        except RayTaskError as error:  # when it connects anew, say
            missing = self._left() or workers.missing()
            outcome = "lost" if missing else "failed"
            reason = _because(missing, f"The client failed outside the strategy: {error.cause!r}")
            self.close()
        else:
            self._failures = self._failures + 1 if record.outcome == "failed" else 0
            return self._blamed(workers, record) if record.outcome in ("failed", "timed_out") else record
        seconds = max(clock.now() - begin, 0.0)
        return request.record(self._stage, started_at, outcome, reason=reason, total_seconds=seconds)

    def close(self) -> None:
        """End the set of workers; the next trial starts a new one."""
        self._failures = 0
        if self._set is not None:
            self._set.close()
            self._set = None

    def _watched(
        self, workers: WorkerSet, request: TrialRequest | TargetRequest, limit: float
    ) -> RuntimeRecord | TargetRecord:
        """The trial's record, or whatever ends it: its time limit, or a process or node that is gone and hangs it."""
        answer, waited = workers.begin(request), 0.0
        while True:
            patience = min(LOOK_SECONDS, limit - waited)
            try:
                record: RuntimeRecord | TargetRecord = workers.answer(answer, patience)
                return record
            except GetTimeoutError:
                waited += patience
                if left := self._left():
                    raise _NodeLeft(f"{left} (The trial was under way.)") from None
                if waited >= limit:
                    raise

    def _left(self) -> str | None:
        """A sentence naming the nodes that have left the cluster, or None."""
        alive = machines_of(ray.nodes())
        left = [f"{node.name} at {node.address}" for node in self._cluster.nodes if node.address not in alive]
        if not left:
            return None
        return f"Node{'s' * (len(left) > 1)} {', '.join(left)} {'have' if len(left) > 1 else 'has'} left the cluster."

    def _blamed(self, workers: WorkerSet, record: RuntimeRecord | TargetRecord) -> RuntimeRecord | TargetRecord:
        """The record of a failure: *lost*, with a new set next, when a process is gone; else as it was."""
        missing = workers.missing()
        if missing is None:
            if self._failures >= FAILURES_IN_A_ROW:  # perhaps it is the client that is broken, not the strategies
                self.close()
            return record
        missing = self._left() or missing
        self.close()
        return replace(record, outcome="lost", reason=_because(missing, record.reason))

    def _living(self) -> WorkerSet:
        """The set of workers, started anew if the last one was lost.

        Raises `_NodeLeft` when a node is gone, and `TrialError` when starting keeps failing with all nodes there.
        """
        attempt, last = 0, ""
        while self._set is None:
            if left := self._left():
                raise _NodeLeft(left)
            attempt += 1
            if attempt > ATTEMPTS:
                raise TrialError(f"A new set of workers could not be started in {ATTEMPTS} attempts; the last: {last}")
            try:
                self._set = self._refilled(self._new_set())
            except (AutosyncError, RayTaskError) as error:
                last = reason_of(error)
        return self._set

    def _refilled(self, fresh: WorkerSet, moved: bool = False) -> WorkerSet:
        """`fresh` with the captured model on it; it is closed when that fails, or when it has `moved` and is unlike."""
        try:
            fresh.load(self._captured)
            fresh.connect()
            if moved and self._settings.probe and (different := alike(self._cluster, fresh.probe())):
                raise ClusterError(f"A node that takes another's place must be like it, but there are {different}.")
            fresh.open_session(self._cluster, self._settings.clock)
        except BaseException:
            fresh.close()
            raise
        return fresh

    def _new_set(self) -> WorkerSet:
        self._generation += 1
        return WorkerSet(self._cluster, self._settings.workers, f"{self._name}-{self._generation}")

    def _new_stage(self, model: ModelSpec) -> Stage:
        return Stage(model, self._cluster, self._settings.clock, Environment.here())


class _NodeLeft(Exception):  # noqa: N818 - not an error: how a trial ends whose node has left
    pass


def _because(missing: str | None, reason: str) -> str:
    return f"{missing} ({reason})" if missing else reason
