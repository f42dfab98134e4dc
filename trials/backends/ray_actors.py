"""Trials on Ray actors: one supervisor that owns a set of workers, and a handle that any process may hold."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass, field
from typing import Any, final

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.placement_group import get_placement_group, placement_group_table, remove_placement_group

from autosync.errors import AutosyncError, TrialError
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord
from trials.clock import Clock, WallClock
from trials.environment import Environment
from trials.reasons import reason_of
from trials.request import TrialRequest
from trials.run import Stage
from trials.worker_set import SetSettings, WorkerSet

__all__ = ["RayBackend", "RaySettings", "Supervisor"]

CLOSE_SECONDS = 3.0
"""How long a supervisor may take to close its workers; one that is in mid-trial is ended, and they end with it."""

FAILURES_IN_A_ROW = 3
"""Failed trials without a cause outside them, after which a new set of workers is started to be sure."""

ATTEMPTS = 3
"""How often in a row a new set of workers is tried before trials are given up."""


@dataclass(frozen=True)
class RaySettings:
    """How trials run on Ray: the set of workers, the clock, and whether links are measured first.

    `grace_seconds` is how long past its own time limit a trial may take before its processes are ended.
    """

    workers: SetSettings = field(default_factory=SetSettings)
    clock: Clock = field(default_factory=WallClock)
    probe: bool = True
    grace_seconds: float = 30.0


@final
class Supervisor:
    """Owns one set of workers: runs trials on it, ends it when it hangs, and starts it anew when it loses a process."""

    def __init__(self, cluster: dict[str, Any], settings: RaySettings, name: str) -> None:
        """`start` comes next; what it raises could not be told from a constructor. Actors are named after `name`."""
        self._settings = settings
        self._cluster = ClusterSpec.from_json(cluster)
        self._name = name
        self._generation = 0
        self._set: WorkerSet | None = None
        self._failures = 0

    def start(self, model: str) -> dict[str, Any]:
        """Start the workers, capture `model`, probe the links; model, notes and cluster as JSON.

        Raises `ModelError` or `ClusterError`, and then leaves no process behind.
        """
        self._set = self._new_set()
        try:
            self._captured = ray.put(self._set.capture(model))
            described = self._set.model()
            self._set.connect()
            if self._settings.probe:
                self._cluster = self._set.probe()
            self._set.open_session(self._cluster, self._settings.clock)
        except BaseException:
            self.close()
            raise
        spec = ModelSpec.from_json(described["spec"])
        self._stage = Stage(spec, self._cluster, self._settings.clock, Environment.here())
        return described | {"cluster": self._cluster.to_json()}

    def pids(self) -> dict[str, int]:
        return self._living().pids()

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """One trial, whatever becomes of it, as a record in JSON."""
        wanted = TrialRequest.from_json(request)
        clock = self._settings.clock
        started_at, begin = clock.timestamp(), clock.now()
        workers = self._living()
        limit = wanted.protocol.time_limit_seconds + self._settings.grace_seconds
        try:
            record = workers.run(request, limit)
        except GetTimeoutError:
            outcome, reason = "timed_out", f"The trial hung for {limit:g} s, and its processes were ended."
            reason = _because(workers.missing(busy_client=True), reason)
            self.close()
        except RayActorError:
            self.close()
            outcome, reason = "failed", "The client process died during the trial."
        except RayTaskError as error:
            self.close()
            outcome, reason = "failed", f"The client failed outside the strategy: {error.cause!r}"
        else:
            self._failures = self._failures + 1 if record["outcome"] == "failed" else 0
            if record["outcome"] in ("failed", "timed_out"):
                record["reason"] = self._blame(workers, record["reason"])
            return record
        failed = self._stage.record(
            wanted, started_at, outcome, reason=reason, total_seconds=max(clock.now() - begin, 0.0)
        )
        return failed.to_json()

    def close(self) -> None:
        """End the set of workers; the next trial starts a new one."""
        self._failures = 0
        if self._set is not None:
            self._set.close()
            self._set = None

    def _blame(self, workers: WorkerSet, reason: str) -> str:
        """Say so when a trial failed because a process is gone, and start anew; else the reason as it was."""
        missing = workers.missing()
        if missing is None:
            if self._failures >= FAILURES_IN_A_ROW:  # perhaps it is the client that is broken, not the strategies
                self.close()
            return reason
        self.close()
        return _because(missing, reason)

    def _living(self) -> WorkerSet:
        """The set of workers, started anew if the last one was lost. Raises `TrialError` when that keeps failing."""
        attempt, last = 0, ""
        while self._set is None:
            attempt += 1
            if attempt > ATTEMPTS:
                raise TrialError(f"A new set of workers could not be started in {ATTEMPTS} attempts; the last: {last}")
            try:
                self._set = self._refilled(self._new_set())
            except (AutosyncError, RayTaskError) as error:
                last = reason_of(error)
        return self._set

    def _refilled(self, fresh: WorkerSet) -> WorkerSet:
        """`fresh` with the captured model on it; it is closed when that fails."""
        try:
            fresh.load(self._captured)
            fresh.connect()
            fresh.open_session(self._cluster, self._settings.clock)
        except BaseException:
            fresh.close()
            raise
        return fresh

    def _new_set(self) -> WorkerSet:
        self._generation += 1
        return WorkerSet(self._cluster, self._settings.workers, f"{self._name}-{self._generation}")


@final
class RayBackend:
    """A handle to a supervisor; it can be sent to other Ray processes. Only its maker should close it."""

    def __init__(self, model: str, cluster: ClusterSpec, settings: RaySettings) -> None:
        """Start a supervisor with its workers. `model` is a zoo name or `package.module:function`.

        Raises `ModelError` when the model cannot be captured, and `ClusterError` when workers cannot be started.
        """
        self._name = f"autosync-{uuid.uuid4().hex[:6]}"
        supervised: Any = ray.remote(Supervisor).options(num_cpus=0, max_restarts=0)
        self._actor = supervised.remote(cluster.to_json(), settings, self._name)
        try:
            described = _unwrapped(self._actor.start.remote(model))
        except BaseException:
            self.close()
            raise
        self.notes: tuple[str, ...] = tuple(described["notes"])
        self._model = ModelSpec.from_json(described["spec"])
        self._cluster = ClusterSpec.from_json(described["cluster"])

    @property
    def model(self) -> ModelSpec:
        return self._model

    @property
    def cluster(self) -> ClusterSpec:
        return self._cluster

    def run(self, request: TrialRequest) -> RuntimeRecord:
        # The dashboard lists the trial's task under this name, with how long it takes.
        name = f"{self._model.name} {request.label} {request.strategy.digest[:8]}"
        return RuntimeRecord.from_json(_unwrapped(self._actor.run.options(name=name).remote(request.to_json())))

    def pids(self) -> dict[str, int]:
        """Process ids of the client and the workers, by role."""
        return dict(_unwrapped(self._actor.pids.remote()))

    def close(self) -> None:
        """End every process, in mid-trial too. Twice is fine."""
        with contextlib.suppress(RayActorError, GetTimeoutError):
            ray.get(self._actor.close.remote(), timeout=CLOSE_SECONDS)
        ray.kill(self._actor, no_restart=True)
        _give_back(self._name)


def _give_back(name: str) -> None:
    """Free the places of all sets called `name`-1, `name`-2, ...

    Ray itself frees those of a supervisor that was ended only when the whole program ends.
    """
    for group in placement_group_table().values():
        if group["name"].startswith(f"{name}-") and group["state"] != "REMOVED":
            with contextlib.suppress(ValueError):  # it was given back meanwhile
                remove_placement_group(get_placement_group(group["name"]))


def _because(missing: str | None, reason: str) -> str:
    return f"{missing} ({reason})" if missing else reason


def _unwrapped(reference: Any) -> Any:
    """The answer of the supervisor, with its own errors as they were raised."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, AutosyncError):
            raise error.cause from None
        raise
    except RayActorError as error:
        raise TrialError(f"The process that supervises trials died: {str(error).strip().splitlines()[0]}") from None
