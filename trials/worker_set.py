"""A set of worker processes with their client, placed together on Ray and kept from trial to trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, final

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from autosync.errors import AutosyncError, ClusterError
from autosync.spec import ClusterSpec
from trials.clock import Clock
from trials.processes import ClientProcess, WorkerProcess

__all__ = ["SetSettings", "WorkerSet"]

T = TypeVar("T")


@dataclass(frozen=True)
class SetSettings:
    """How a set of workers is started: cores asked of Ray for each, and how long starting may take."""

    cpus_per_worker: float = 1.0
    start_timeout_seconds: float = 180.0
    import_paths: tuple[str, ...] = ()


@final
class WorkerSet:
    """One worker process for every server device of `cluster`, and a client beside the first.

    `close` ends all of them; a set that lost a process is closed and a new one is started.
    """

    def __init__(self, cluster: ClusterSpec, settings: SetSettings, name: str) -> None:
        """Start all processes (they import TensorFlow side by side). Raises `ClusterError` when they cannot be placed."""
        self.cluster = cluster
        self.settings = settings
        self._group = self._place(name)
        options = {"num_cpus": 0, "max_restarts": 0}
        workers = [(node, worker) for node in cluster.nodes for worker in range(node.workers)]
        self.client = self._actor(ClientProcess, 0, f"{name}-client", options).remote(settings.import_paths)
        self.workers = [
            self._actor(WorkerProcess, index, f"{name}-worker-{node.name}-{worker}", options).remote(node.address)
            for index, (node, worker) in enumerate(workers)
        ]
        self._addresses: list[str] = []

    def capture(self, model: str) -> bytes:
        """Capture `model` in the client. Raises `ModelError`."""
        gpus = sum(node.gpus for node in self.cluster.nodes)
        return self._get(self.client.capture.remote(model, gpus), "capturing the model")

    def load(self, captured: Any) -> None:
        """Give the client a model captured before; `captured` may be an object reference to its bytes."""
        self._get(self.client.load.remote(captured), "loading the model")

    def model(self) -> dict[str, Any]:
        return self._get(self.client.model.remote(), "describing the model")

    def connect(self) -> None:
        """Join the client to all workers; a model must have been captured or loaded."""
        self._addresses = self._get([each.address.remote() for each in self.workers], "starting the workers")
        self._get(self.client.connect.remote(self._addresses), "connecting to the workers")

    def probe(self) -> ClusterSpec:
        return ClusterSpec.from_json(self._get(self.client.probe.remote(self.cluster.to_json()), "probing the links"))

    def open_session(self, cluster: ClusterSpec, clock: Clock) -> None:
        self.cluster = cluster
        self._get(self.client.open_session.remote(cluster.to_json(), clock), "placing the model")

    def run(self, request: dict[str, Any], timeout_seconds: float) -> dict[str, Any]:
        """Run one trial in the client. Raises Ray's `GetTimeoutError` or `RayActorError` when it hangs or dies."""
        return ray.get(self.client.run.remote(request), timeout=timeout_seconds)

    def missing(self) -> str | None:
        """A sentence naming a process that has died, or None while all answer."""
        names = {"the client": self.client} | {f"worker {i} on {n}": w for i, (n, w) in enumerate(self._named_workers())}
        for name, actor in names.items():
            try:
                ray.get(actor.pid.remote(), timeout=10)
            except (RayActorError, GetTimeoutError):
                return f"{name[0].upper()}{name[1:]} has died or does not answer."
        return None

    def pids(self) -> dict[str, int]:
        """Process ids of the client and the workers, by role."""
        actors = {"client": self.client} | {f"worker-{index}": each for index, each in enumerate(self.workers)}
        return dict(zip(actors, ray.get([each.pid.remote() for each in actors.values()]), strict=True))

    def close(self) -> None:
        """End every process of the set and give its place back. Twice is fine."""
        for actor in [self.client, *self.workers]:
            ray.kill(actor, no_restart=True)
        remove_placement_group(self._group)

    def _named_workers(self) -> list[tuple[str, Any]]:
        nodes = [node.name for node in self.cluster.nodes for _ in range(node.workers)]
        return list(zip(nodes, self.workers, strict=True))

    def _place(self, name: str) -> Any:
        bundles = []
        for node in self.cluster.nodes:
            for _ in range(node.workers):
                bundle = {"CPU": self.settings.cpus_per_worker, f"node:{node.address}": 0.001}
                bundles.append(bundle | ({"GPU": float(node.gpus)} if node.gpus else {}))
        group = placement_group(bundles, strategy="PACK", name=name)
        if not group.wait(timeout_seconds=60):
            remove_placement_group(group)
            have = ray.available_resources()
            raise ClusterError(
                f"{len(bundles)} workers of {self.settings.cpus_per_worker:g} CPUs each must be placed, but the cluster "
                f"has {have.get('CPU', 0):g} CPUs and {have.get('GPU', 0):g} GPUs free; use fewer --workers or end other jobs."
            )
        return group

    def _actor(self, process: type, bundle: int, name: str, options: dict[str, Any]) -> Any:
        own = {"num_cpus": self.settings.cpus_per_worker} if process is WorkerProcess else {}
        gpus = self.cluster.nodes[0].gpus if process is WorkerProcess else 0
        strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=bundle)
        remote = ray.remote(process)
        return remote.options(
            **(options | own | {"num_gpus": gpus}), name=name, scheduling_strategy=strategy, get_if_exists=False
        )

    def _get(self, reference: Any, what: str) -> Any:
        """The answer, with our own errors as they were raised and Ray's as a `ClusterError`."""
        return _answered(lambda: ray.get(reference, timeout=self.settings.start_timeout_seconds), what)


def _answered(get: Callable[[], T], what: str) -> T:
    try:
        return get()
    except RayTaskError as error:
        if isinstance(error.cause, AutosyncError):
            raise error.cause from None
        raise
    except GetTimeoutError:
        raise ClusterError(f"A worker process did not answer in time while {what}; look at Ray's logs.") from None
    except RayActorError as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise ClusterError(f"A worker process died while {what}: {reason}") from None
