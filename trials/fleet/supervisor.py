"""The supervisor: a Ray actor that owns one set of workers and runs trials on it."""

from dataclasses import dataclass, field, replace
from typing import Any, final

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from autosync.engine.core.registry import engine_named
from autosync.errors import AutosyncError, ClusterError, TrialError
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, TargetRecord
from trials.clock import Clock, Environment, WallClock
from trials.cluster.node_matching import alike, seat_at
from trials.cluster.ray_labels import machines_of
from trials.to_target import TargetRequest
from trials.trial import TrialRequest, TrialSetup, reason_of
from trials.workers.worker_set import ProcessDiedError, SetSettings, WorkerDiedError, WorkerSet

FAILURES_IN_A_ROW = 3
"""Consecutive failed trials without an outside cause, after which a new set of workers is started as a precaution."""

ATTEMPTS = 3
"""Consecutive attempts to start a new set of workers before trials are given up."""

LOOK_SECONDS = 2.0
"""Seconds between checks of the nodes during a trial."""


@dataclass(frozen=True)
class RaySettings:
    """The settings of trials on Ray."""

    workers: SetSettings = field(default_factory=SetSettings)
    """The settings of the set of workers."""
    clock: Clock = field(default_factory=WallClock)
    """The clock that times steps."""
    probe: bool = True
    """True to measure links first."""
    grace_seconds: float = 30.0
    """Seconds past its time limit that a trial may take before its processes are ended."""


@dataclass(frozen=True)
class Started:
    """The answer of a supervisor that has started."""

    model: ModelSpec
    notes: tuple[str, ...]
    cluster: ClusterSpec
    report: dict[str, Any] | None
    """The probe's report; None without a probe."""
    captured: Any
    """A reference to the captured model."""


@final
class Supervisor:
    """Runs trials on one set of workers, ends the set if it hangs, and starts a new one if a process is lost.

    A trial whose process or node has gone is *lost*, not failed, because the loss says nothing about the strategy.
    """

    def __init__(self, cluster: ClusterSpec, settings: RaySettings, name: str) -> None:
        """`start` comes next, because an error of a constructor could not be reported.

        Actors are named after `name`.
        """
        self._settings = settings
        self._cluster = cluster
        self._name = name
        self._generation = 0
        self._set: WorkerSet | None = None
        self._failures = 0
        self._report: dict[str, Any] | None = None

    def start(self, model: str, captured: list[Any] | None = None) -> Started:
        """Start the workers, capture `model` (or take the model whose reference is in `captured`), and probe.

        If a process dies during the start, all processes are started once more. Raises `ModelError` or `ClusterError`,
        and then leaves no process behind.
        """
        try:
            return self._start(model, captured)
        except ProcessDiedError as died:
            started = self._start(model, captured)
            again = f"{died} All processes were started once more."
            return replace(started, notes=(*started.notes, again))

    def _start(self, model: str, captured: list[Any] | None) -> Started:
        self._set = self._new_set()
        try:
            if captured is None:
                self._captured = ray.put(self._set.capture(model))
            else:
                # A copy is needed, because the lane that captured the model may be given up.
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
        """Move to the nodes at `addresses`; return why they cannot be used, in words, or an empty string."""
        before = self._cluster
        self.close()
        self._cluster = seat_at(before, addresses)
        try:
            self._set = self._fill(self._new_set(), moved=True)
        except (AutosyncError, RayTaskError) as error:
            self._cluster = before
            return str(error) if isinstance(error, AutosyncError) else reason_of(error)
        self._stage = self._new_stage(self._stage.model)
        return ""

    def run(self, request: TrialRequest | TargetRequest) -> RuntimeRecord | TargetRecord:
        """Run one trial; return a record for every outcome."""
        clock = self._settings.clock
        started_at, begin = clock.timestamp(), clock.now()
        limit = request.time_limit_seconds + self._settings.grace_seconds
        try:
            workers = self._living()
            record = self._watch(workers, request, limit)
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
        except RayTaskError as error:  # for example when the client connects again
            missing = self._left() or workers.missing()
            outcome = "lost" if missing else "failed"
            reason = _because(missing, f"The client failed outside the strategy: {error.cause!r}")
            self.close()
        else:
            self._failures = self._failures + 1 if record.outcome == "failed" else 0
            return self._find_cause(workers, record) if record.outcome in ("failed", "timed_out") else record
        seconds = max(clock.now() - begin, 0.0)
        return request.record(self._stage, started_at, outcome, reason=reason, total_seconds=seconds)

    def close(self) -> None:
        """End the set of workers; the next trial starts a new one."""
        self._failures = 0
        if self._set is not None:
            self._set.close()
            self._set = None

    def _watch(
        self, workers: WorkerSet, request: TrialRequest | TargetRequest, limit: float
    ) -> RuntimeRecord | TargetRecord:
        """Return the trial's record, or raise at its time limit, or when a process or node is gone."""
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

    def _find_cause(self, workers: WorkerSet, record: RuntimeRecord | TargetRecord) -> RuntimeRecord | TargetRecord:
        """Return the record of a failure: *lost*, with a new set of workers next, if a process is gone; otherwise
        unchanged.
        """
        missing = workers.missing()
        if missing is None:
            if self._failures >= FAILURES_IN_A_ROW:  # the client may be broken instead of the strategies
                self.close()
            return record
        missing = self._left() or missing
        self.close()
        return replace(record, outcome="lost", reason=_because(missing, record.reason))

    def _living(self) -> WorkerSet:
        """Return the set of workers, started again if the last one was lost.

        Raises `_NodeLeft` if a node is gone, and `TrialError` if starting fails repeatedly with all nodes alive.
        """
        attempt, last = 0, ""
        while self._set is None:
            if left := self._left():
                raise _NodeLeft(left)
            attempt += 1
            if attempt > ATTEMPTS:
                raise TrialError(f"A new set of workers could not be started in {ATTEMPTS} attempts; the last: {last}")
            try:
                self._set = self._fill(self._new_set())
            except (AutosyncError, RayTaskError) as error:
                last = reason_of(error)
        return self._set

    def _fill(self, fresh: WorkerSet, moved: bool = False) -> WorkerSet:
        """Load the captured model into `fresh`; close `fresh` if that fails, or if it has `moved` to unlike nodes."""
        try:
            fresh.load(self._captured)
            fresh.connect()
            if moved and self._settings.probe and (different := alike(self._cluster, fresh.probe())):
                raise ClusterError(f"A node that replaces another must be like it, but there are {different}.")
            fresh.open_session(self._cluster, self._settings.clock)
        except BaseException:
            fresh.close()
            raise
        return fresh

    def _new_set(self) -> WorkerSet:
        self._generation += 1
        return WorkerSet(self._cluster, self._settings.workers, f"{self._name}-{self._generation}")

    def _new_stage(self, model: ModelSpec) -> TrialSetup:
        return TrialSetup(
            model, self._cluster, self._settings.clock, Environment.here(engine_named(self._settings.workers.engine))
        )


class _NodeLeft(Exception):  # noqa: N818 - not an error, but the end of a trial whose node has left
    pass


def _because(missing: str | None, reason: str) -> str:
    return f"{missing} ({reason})" if missing else reason
