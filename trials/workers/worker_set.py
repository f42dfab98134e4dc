"""A set of worker processes with their client, placed together on Ray and kept from trial to trial."""

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, final

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from autosync.engine.core.registry import DEFAULT, engine_named
from autosync.errors import AutosyncError, ClusterError, ModelError
from autosync.spec import ClusterSpec, DeviceProfile, KeptProfile, ModelSpec
from trials.capture_in_subprocess import CAPTURE_SECONDS, too_slow
from trials.clock import Clock
from trials.cluster.node_matching import addresses_of
from trials.cluster.ray_labels import EMULATING, machines_of
from trials.probe import Probing
from trials.to_target import TargetRequest
from trials.trial import TrialRequest, reason_of
from trials.workers.exposure import servers_listen
from trials.workers.import_places import ImportPlace
from trials.workers.memory import check_room, memory_in_words
from trials.workers.processes import ClientProcess, WorkerProcess

T = TypeVar("T")

LOOK_SECONDS = 2.0
"""Seconds between checks of the nodes while the set waits for its placement."""

TELLING_SECONDS = 5.0
"""Seconds in which the client may report a worker's death itself; it usually does, with the operation that failed."""

NODE_SHARE, ANY_SHARE = 0.6, 0.001
"""Shares of a node's resource `node:ADDRESS`, which is 1 in Ray: over half is available once, a little to everyone."""


@dataclass(frozen=True)
class SetSettings:
    """The settings with which a set of workers is started."""

    cpus_per_worker: float = 1.0
    """CPUs requested from Ray for each worker."""
    start_timeout_seconds: float = 180.0
    """Time limit for an answer of a process during the start."""
    capture_seconds: float = CAPTURE_SECONDS
    """Time limit for capturing the model."""
    place_timeout_seconds: float = 60.0
    """Time limit for the placement."""
    answer_seconds: float = 10.0
    """A process that does not report its pid within this time counts as hung."""
    import_places: tuple[ImportPlace, ...] = ()
    """Places where processes look for a user's model."""
    exclusive: bool = True
    """True if no other set, even of another program, may share a node with this one."""
    trials_a_connection: int | None = None
    """Trials between two connections; see `ClientProcess`."""
    profile: DeviceProfile | None = None
    """The profile that paced passes of a captured model follow; None for the measured profile."""
    kept_profile: KeptProfile | None = None
    """The profile of an earlier capture. A model with the same digest gets this profile without another measurement."""
    engine: str = DEFAULT
    """The name of the engine."""


NOTICE_SECONDS = 2.0
"""Seconds to wait, after a failed call, for a death that may have caused the failure."""


class WorkerDiedError(Exception):
    """A worker has died, and the client does not answer; the message is a sentence that names the worker."""


class ProcessDiedError(ClusterError):
    """A process has died while its set was started; a new set may well start."""


@final
class WorkerSet:
    """One worker process for every server device of `cluster`, and a client on the first one's node.

    `close` ends all of them; a set that lost a process is closed and a new one is started.
    """

    def __init__(self, cluster: ClusterSpec, settings: SetSettings, name: str) -> None:
        """Start all processes, which load the framework. Raises `ClusterError` if they cannot be placed."""
        self.cluster = cluster
        self.settings = settings
        self._group = self._place(name)
        workers = [(node, worker) for node in cluster.nodes for worker in range(node.workers)]
        token = secrets.token_hex(32)
        self.client = self._actor(ClientProcess, 0, name=f"{name}-client", num_cpus=0, num_gpus=0).remote(
            settings.engine, settings.import_places, settings.trials_a_connection, token
        )
        self.workers = [
            self._actor(
                WorkerProcess,
                index,
                name=f"{name}-worker-{node.name}-{worker}",
                num_cpus=settings.cpus_per_worker,
                num_gpus=node.gpus,
                max_concurrency=2,  # one call is `live`
            ).remote(
                settings.engine,
                node.address,
                node.cores / node.workers,
                cluster.paced,
                addresses_of(cluster),
                token,
                settings.import_places,
            )
            for index, (node, worker) in enumerate(workers)
        ]
        self._lives = [worker.live.remote() for worker in self.workers]
        self.exposure = ""
        """A sentence on the addresses where the workers' servers listen, once the set is connected."""

    def capture(self, model: str) -> bytes:
        """Capture `model` in the client. Raises `ModelError`, and `SpecError` if the profile does not fit it."""
        gpus = sum(node.gpus for node in self.cluster.nodes)
        seconds = self.settings.capture_seconds
        reference = self.client.capture.remote(model, gpus, self.settings.profile, self.settings.kept_profile)
        if not ray.wait([reference], timeout=seconds)[0]:
            raise too_slow(model, seconds)
        return self._get(reference, "capturing the model")

    def load(self, captured: Any) -> None:
        """Send the client a model captured before; `captured` may be an object reference to its bytes."""
        self._get(self.client.load.remote(captured), "loading the model")

    def model(self) -> tuple[ModelSpec, tuple[str, ...]]:
        """Return the captured model's spec and notes."""
        return self._get(self.client.model.remote(), "describing the model")

    def check_room(self) -> str:
        """Return a sentence on the memory that the model takes. Raises `ClusterError` if a machine has too little."""
        model, _ = self.model()
        if not any(node.gpus for node in self.cluster.nodes):  # GPUs have their own memory
            references = [worker.memory.remote() for worker in self.workers]
            check_room(model, [self._get(reference, "looking at memory") for reference in references])
        return memory_in_words(model, engine_named(self.settings.engine))

    def connect(self) -> None:
        """Connect the client to all workers; a model must have been captured or loaded."""
        answers = [worker.address.remote() for worker in self.workers]
        listening = [self._get(answer, "starting the workers") for answer in answers]
        addresses = [address for address, _ in listening]
        self.exposure = servers_listen(
            engine_named(self.settings.engine).server_name,
            addresses,
            is_open=any(is_open for _, is_open in listening),
            is_emulated=all(
                node.shared_cores and node.shared_cores.machine == EMULATING for node in self.cluster.nodes
            ),
        )
        self._get(self.client.connect.remote(addresses, self.cluster.nodes[0].address), "connecting to the workers")

    def probe(self) -> ClusterSpec:
        return self.probing().cluster

    def probing(self) -> Probing:
        """Return the measured cluster with its report. Raises `ClusterError`, naming nodes that do not answer."""
        return self._get(self.client.probe.remote(self.cluster), "probing the links")

    def open_session(self, cluster: ClusterSpec, clock: Clock) -> None:
        self.cluster = cluster
        self._get(self.client.open_session.remote(cluster, clock, self.waits()), "placing the model")

    def waits(self) -> dict[str, Any] | None:
        """Return the waits that workers of a paced cluster offer, by server device; None if the cluster is not
        paced.
        """
        if not self.cluster.paced:
            return None
        offered = [self._get(worker.offer_waits.remote(), "pacing the workers") for worker in self.workers]
        return dict(zip(map(str, self.cluster.server_devices), offered, strict=True))

    def begin(self, request: TrialRequest | TargetRequest) -> Any:
        """Start one trial in the client; return a reference to its record."""
        return self.client.run.remote(request)

    def answer(self, reference: Any, seconds: float) -> Any:
        """Wait up to `seconds` for the answer of the client or a worker, and return it.

        Raises `GetTimeoutError` after `seconds`, `WorkerDiedError`, and Ray's errors for a failed call.
        """
        ready, _ = ray.wait([reference, *self._lives], num_returns=1, timeout=seconds)
        if not ready:
            raise GetTimeoutError(f"No answer within {seconds:g} s.")
        if reference in ready:
            return ray.get(reference)
        try:
            return ray.get(reference, timeout=TELLING_SECONDS)
        except GetTimeoutError:
            raise WorkerDiedError(self.missing(busy_client=True) or "A worker process has died.") from None

    def missing(self, busy_client: bool = False) -> str | None:
        """A sentence naming the processes that have died or hang, or None if all answer.

        A `busy_client`, which could answer only after its trial, is not asked.
        """
        actors = {f"worker {index} on {node}": worker for index, (node, worker) in enumerate(self._workers_by_node())}
        if not busy_client:
            actors["the client"] = self.client
        references = {name: actor.pid.remote() for name, actor in actors.items()}
        ray.wait(list(references.values()), num_returns=len(references), timeout=self.settings.answer_seconds)
        faults = ((name, _fault(reference)) for name, reference in references.items())
        return _sentence(f"{name} {fault}" for name, fault in faults if fault) or None

    def pids(self) -> dict[str, int]:
        """Process ids of the client and the workers, by role."""
        actors = {"client": self.client} | {f"worker-{index}": worker for index, worker in enumerate(self.workers)}
        return dict(zip(actors, ray.get([actor.pid.remote() for actor in actors.values()]), strict=True))

    def close(self) -> None:
        """End every process of the set and free its placement. A second call does nothing."""
        for actor in [self.client, *self.workers]:
            ray.kill(actor, no_restart=True)
        remove_placement_group(self._group)

    def _workers_by_node(self) -> list[tuple[str, Any]]:
        nodes = [node.name for node in self.cluster.nodes for _ in range(node.workers)]
        return list(zip(nodes, self.workers, strict=True))

    def _place(self, name: str) -> Any:
        bundles = []
        for node in self.cluster.nodes:
            for _ in range(node.workers):
                share = NODE_SHARE / node.workers if self.settings.exclusive else ANY_SHARE
                bundle = {"CPU": self.settings.cpus_per_worker, f"node:{node.address}": share}
                bundles.append(bundle | ({"GPU": float(node.gpus)} if node.gpus else {}))
        group = placement_group(bundles, strategy="PACK", name=name)
        if not self._is_placed(group):
            remove_placement_group(group)
            raise ClusterError(_no_place(self.cluster, self.settings))
        return group

    def _is_placed(self, group: Any) -> bool:
        """Wait for the placement; return False at the time limit, or once a node has left the cluster."""
        deadline = time.monotonic() + self.settings.place_timeout_seconds
        wanted = set(addresses_of(self.cluster))
        while not group.wait(timeout_seconds=LOOK_SECONDS):
            if time.monotonic() > deadline or not wanted <= machines_of(ray.nodes()).keys():
                return False
        return True

    def _actor(self, process: type, bundle: int, **options: Any) -> Any:
        placed = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=bundle)
        return ray.remote(process).options(**options, max_restarts=0, scheduling_strategy=placed)

    def _get(self, reference: Any, what: str) -> Any:
        """Return the answer; autosync's errors are raised unchanged, and Ray's as a `ClusterError`.

        If a worker has died, any error is raised as a `ProcessDiedError`, because the death may be the cause.
        """
        try:
            return _await_answer(lambda: self.answer(reference, self.settings.start_timeout_seconds), what)
        except ModelError:
            raise
        except (AutosyncError, RayTaskError) as error:
            if dead := self._dead_workers():
                why = str(error) if isinstance(error, AutosyncError) else reason_of(error)
                raise ProcessDiedError(f"{dead} ({why})") from None
            raise

    def _dead_workers(self) -> str:
        """A sentence naming the workers that have died, or will die at once; empty if there are none."""
        ready, _ = ray.wait(self._lives, timeout=NOTICE_SECONDS)
        workers = zip(self._lives, enumerate(self._workers_by_node()), strict=True)
        return _sentence(f"worker {index} on {node} has died" for life, (index, (node, _)) in workers if life in ready)


def _sentence(parts: Iterable[str]) -> str:
    """Join the parts with commas to a sentence; empty if there are none."""
    whole = ", ".join(parts)
    return f"{whole[0].upper()}{whole[1:]}." if whole else ""


def _no_place(cluster: ClusterSpec, settings: SetSettings) -> str:
    """Return why workers cannot be placed, judged by the free resources."""
    have = ray.available_resources()
    taken = [node.address for node in cluster.nodes if have.get(f"node:{node.address}", 0.0) < NODE_SHARE]
    if settings.exclusive and taken:
        return f"A trial needs its nodes for itself, but {', '.join(taken)} are held or gone; end other jobs there."
    return (
        f"{len(cluster.server_devices)} workers of {settings.cpus_per_worker:g} CPUs each must be placed, but the "
        f"cluster has {have.get('CPU', 0):g} CPUs and {have.get('GPU', 0):g} GPUs free; use fewer --workers "
        "or end other jobs."
    )


def _fault(reference: Any) -> str:
    try:
        ray.get(reference, timeout=0)
    except GetTimeoutError:
        return "does not answer"
    except RayActorError:
        return "has died"
    return ""


def _await_answer(get: Callable[[], T], what: str) -> T:
    try:
        return get()
    except RayTaskError as error:
        if isinstance(error.cause, AutosyncError):
            raise error.cause from None
        raise
    except GetTimeoutError:
        raise ClusterError(f"A worker process did not answer in time while {what}; look at Ray's logs.") from None
    except WorkerDiedError:
        raise ProcessDiedError(f"This was while {what}.") from None
    except RayActorError as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise ProcessDiedError(f"A process died while {what}: {reason}") from None
