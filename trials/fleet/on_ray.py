"""Trials on Ray actors: a handle, which any process may hold, to a supervisor with its set of workers."""

import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.placement_group import get_placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from autosync.errors import AutosyncError, TrialError
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, TargetRecord
from trials.fleet.supervisor import RaySettings, Started, Supervisor
from trials.to_target import TargetRequest
from trials.trial import TrialRequest

__all__ = ["Launch", "RayBackend", "RaySettings", "RunByName"]

CLOSE_SECONDS = 3.0
"""Seconds that a supervisor may take to close its workers; one that is in mid-trial is ended, and they end with it."""


@final
class Launch:
    """A supervisor that is starting its workers, which takes seconds; `RayBackend` waits for it."""

    def __init__(self, model: str, cluster: ClusterSpec, settings: RaySettings, captured: Any = None) -> None:
        """`model` is a zoo name or `package.module:function`.

        `captured` may be another back end's of the same model.
        """
        self.name = f"autosync-{uuid.uuid4().hex[:6]}"
        # The supervisor stays beside this process: the loss of another node must never take it along.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        supervised: Any = ray.remote(Supervisor).options(
            name=_actor_name(self.name), num_cpus=0, max_restarts=0, scheduling_strategy=here
        )
        self.actor = supervised.remote(cluster, settings, self.name)
        # In a list a reference is handed on as it is, and the model goes straight to the client that needs it.
        self._started = self.actor.start.remote(model, None if captured is None else [captured])

    def is_over(self) -> bool:
        """Whether the supervisor has started, or failed to."""
        return bool(ray.wait([self._started], timeout=0)[0])

    def started(self) -> Started:
        """What it says once it has started. What goes wrong is raised, and no process is left."""
        try:
            started: Started = _unwrapped(self._started)
            return started
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every process, in mid-trial too. A second call does no harm."""
        with contextlib.suppress(RayActorError, GetTimeoutError):
            ray.get(self.actor.close.remote(), timeout=CLOSE_SECONDS)
        ray.kill(self.actor, no_restart=True)
        _give_back(self.name)


@final
class RayBackend:
    """A handle to a supervisor. Other processes run trials on it by its name: `RunByName`."""

    def __init__(self, launch: Launch) -> None:
        """Wait until the workers have started.

        Raises `ModelError` when the model cannot be captured, and `ClusterError` when workers cannot be started.
        """
        started = launch.started()
        self._launch = launch
        self._actor = launch.actor
        self.name = launch.name
        self.captured: Any = started.captured
        """A reference to the captured model, good as long as this back end lives."""
        self.probing = started.report
        self.notes = started.notes
        self._model = started.model
        self._cluster = started.cluster

    @property
    def model(self) -> ModelSpec:
        return self._model

    @property
    def cluster(self) -> ClusterSpec:
        return self._cluster

    def run(self, request: TrialRequest) -> RuntimeRecord:
        record: RuntimeRecord = _run(self._actor, self._model.name, request)
        return record

    def train(self, request: TargetRequest) -> TargetRecord:
        record: TargetRecord = _run(self._actor, self._model.name, request)
        return record

    def adopt(self, cluster: ClusterSpec) -> None:
        """Let records name the figures of `cluster`, whose nodes are alike and at the same addresses."""
        _unwrapped(self._actor.adopt.remote(cluster))
        self._cluster = cluster

    def begin_move(self, addresses: Sequence[str]) -> Any:
        """Begin to go over to the nodes at `addresses`; return a reference for `end_move`."""
        return self._actor.move.remote(list(addresses))

    def end_move(self, begun: Any, goal: ClusterSpec) -> str:
        """Wait for the move to `goal`; return why it could not be made, in words, or nothing."""
        why = str(_unwrapped(begun))
        if not why:
            self._cluster = goal
        return why

    def pids(self) -> dict[str, int]:
        """Process ids of the client and the workers, by role."""
        return dict(_unwrapped(self._actor.pids.remote()))

    def close(self) -> None:
        """End every process, in mid-trial too. A second call does no harm."""
        self._launch.close()


@final
@dataclass(frozen=True)
class RunByName:
    """Runs a trial on the back end of that name, from any process of the same Ray job."""

    model_name: str

    def __call__(self, backend: str, request: TrialRequest) -> RuntimeRecord:
        try:
            actor = ray.get_actor(_actor_name(backend))
        except ValueError:
            raise TrialError("The process that supervises trials is gone.") from None
        record: RuntimeRecord = _run(actor, self.model_name, request)
        return record


def _actor_name(backend: str) -> str:
    return f"{backend}-supervisor"


def _run(actor: Any, model_name: str, request: TrialRequest | TargetRequest) -> Any:
    # The dashboard lists the trial's task under this name, with how long it takes.
    name = f"{model_name} {request.label} {request.strategy.digest[:8]}"
    return _unwrapped(actor.run.options(name=name).remote(request))


def _give_back(name: str) -> None:
    """Free the places of all sets called `name`-1, `name`-2, ...

    Ray itself frees those of a supervisor that was ended only when the whole program ends.
    """
    for group in placement_group_table().values():
        if group["name"].startswith(f"{name}-") and group["state"] != "REMOVED":
            with contextlib.suppress(ValueError):  # it was given back meanwhile
                remove_placement_group(get_placement_group(group["name"]))


def _unwrapped(reference: Any) -> Any:
    """The answer of the supervisor; its own errors are raised as they were there."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, AutosyncError):
            raise error.cause from None
        raise
    except RayActorError as error:
        raise TrialError(f"The process that supervises trials died: {str(error).strip().splitlines()[0]}") from None
