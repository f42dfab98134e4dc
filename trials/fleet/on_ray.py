"""Runs trials on Ray actors: a handle, usable in any process, to a supervisor with its set of workers."""

import contextlib
import re
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
"""Seconds that a supervisor may take to close its workers.

A supervisor in the middle of a trial is killed, and its workers end with it.
"""


@final
class Launch:
    """A supervisor that is starting its workers, which takes seconds; `RayBackend` waits for it."""

    def __init__(self, model: str, cluster: ClusterSpec, settings: RaySettings, captured: Any = None) -> None:
        """`model` is a zoo name or `package.module:function`.

        `captured` may come from another back end of the same model.
        """
        # The dashboard lists actors and placement groups by names that begin like this.
        self.name = f"autosync-{_plain(model)}-{uuid.uuid4().hex[:6]}"
        # The supervisor runs on this process's node, so that the loss of another node never ends it.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        supervised: Any = ray.remote(Supervisor).options(
            name=_actor_name(self.name), num_cpus=0, max_restarts=0, scheduling_strategy=here
        )
        self.actor = supervised.remote(cluster, settings, self.name)
        # Ray passes on a reference inside a list as it is, so the model goes straight to the client that needs it.
        self._started = self.actor.start.remote(model, None if captured is None else [captured])

    def is_over(self) -> bool:
        """True if the supervisor has started, or failed to start."""
        return bool(ray.wait([self._started], timeout=0)[0])

    def wait(self) -> Started:
        """Wait for the supervisor's answer. An error is raised here, with no process left behind."""
        try:
            started: Started = _unwrap(self._started)
            return started
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every process, even in the middle of a trial. A second call does nothing."""
        with contextlib.suppress(RayActorError, GetTimeoutError):
            ray.get(self.actor.close.remote(), timeout=CLOSE_SECONDS)
        ray.kill(self.actor, no_restart=True)
        _give_back(self.name)


@final
class RayBackend:
    """A handle to a supervisor. Other processes run trials on it by its name: `RunByName`."""

    def __init__(self, launch: Launch) -> None:
        """Wait until the workers have started.

        Raises `ModelError` if the model cannot be captured, and `ClusterError` if workers cannot be started.
        """
        started = launch.wait()
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

    def begin(self, request: TargetRequest) -> Any:
        """Start a run to a target; return a reference for `end`."""
        return _begin(self._actor, self._model.name, request)

    def end(self, begun: Any) -> TargetRecord:
        """Wait for the end of a started run; return its record. Raises `TrialError`."""
        record: TargetRecord = _unwrap(begun)
        return record

    def adopt(self, cluster: ClusterSpec) -> None:
        """Let records name the figures of `cluster`, whose nodes are alike and at the same addresses."""
        _unwrap(self._actor.adopt.remote(cluster))
        self._cluster = cluster

    def begin_move(self, addresses: Sequence[str]) -> Any:
        """Start the move to the nodes at `addresses`; return a reference for `end_move`."""
        return self._actor.move.remote(list(addresses))

    def end_move(self, begun: Any, goal: ClusterSpec) -> str:
        """Wait for the move to `goal`; return the reason of a failure in words, or an empty string."""
        why = str(_unwrap(begun))
        if not why:
            self._cluster = goal
        return why

    def pids(self) -> dict[str, int]:
        """Process ids of the client and the workers, by role."""
        return dict(_unwrap(self._actor.pids.remote()))

    def close(self) -> None:
        """End every process, even in the middle of a trial. A second call does nothing."""
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


def _plain(model: str) -> str:
    """The name of a model, or of its function, in letters, digits and underscores."""
    return re.sub(r"\W+", "_", model.rpartition(":")[2])


def _actor_name(backend: str) -> str:
    return f"{backend}-supervisor"


def _run(actor: Any, model_name: str, request: TrialRequest | TargetRequest) -> Any:
    return _unwrap(_begin(actor, model_name, request))


def _begin(actor: Any, model_name: str, request: TrialRequest | TargetRequest) -> Any:
    # The dashboard lists the trial's task under this name, with its duration.
    name = f"{model_name} {request.label} {request.strategy.digest[:8]}"
    return actor.run.options(name=name).remote(request)


def _give_back(name: str) -> None:
    """Free the placement groups of all sets called `name`-1, `name`-2, ...

    Ray itself frees the groups of a killed supervisor only when the whole program ends.
    """
    for group in placement_group_table().values():
        if group["name"].startswith(f"{name}-") and group["state"] != "REMOVED":
            with contextlib.suppress(ValueError):  # the group was freed meanwhile
                remove_placement_group(get_placement_group(group["name"]))


def _unwrap(reference: Any) -> Any:
    """Return the supervisor's answer; autosync's own errors are raised as the supervisor raised them."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, AutosyncError):
            raise error.cause from None
        raise
    except RayActorError as error:
        raise TrialError(f"The process that supervises trials died: {str(error).strip().splitlines()[0]}") from None
