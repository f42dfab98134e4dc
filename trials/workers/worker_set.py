"""A set of worker processes with their client, placed together on Ray and kept from trial to trial."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, final

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from autosync.engine.capture_apart import CAPTURE_SECONDS, too_slow
from autosync.errors import AutosyncError, ClusterError, ModelError
from autosync.spec import ClusterSpec, DeviceProfile, ModelSpec
from trials.clock import Clock
from trials.cluster.ray_labels import EMULATING, machines_of
from trials.cluster.seats import addresses_of
from trials.probe import Probing
from trials.to_target import TargetRequest
from trials.trial import TrialRequest, reason_of
from trials.workers.exposure import servers_listen
from trials.workers.memory import check_room, memory_in_words
from trials.workers.processes import ClientProcess, WorkerProcess

T = TypeVar("T")

LOOK_SECONDS = 2.0
"""Seconds between looks at the nodes while a place is waited for."""

TELLING_SECONDS = 5.0
"""Seconds in which the client may say itself that a worker has died: mostly it does, with what it was doing."""

NODE_SHARE, ANY_SHARE = 0.6, 0.001
"""Shares of a node's resource `node:ADDRESS`, which is 1 in Ray: over half can be had once, a little by everyone."""


@dataclass(frozen=True)
class SetSettings:
    """How a set of workers is started: cores asked of Ray for each, and how long placing, starting and capturing may
    take.

    A process that does not say its pid within `answer_seconds` counts as hung. `import_paths` are where the client
    looks for a user's model. While `exclusive`, no other set shares a node with this one, be it another program's.
    `trials_a_connection`: see `ClientProcess`. Paced passes of the model that is captured follow `profile`, if there is
    one.
    """

    cpus_per_worker: float = 1.0
    start_timeout_seconds: float = 180.0
    capture_seconds: float = CAPTURE_SECONDS
    place_timeout_seconds: float = 60.0
    answer_seconds: float = 10.0
    import_paths: tuple[str, ...] = ()
    exclusive: bool = True
    trials_a_connection: int = 150
    profile: DeviceProfile | None = None


NOTICE_SECONDS = 2.0
"""Seconds after a failed call in which the death that it may have come of is waited for."""


class WorkerDiedError(Exception):
    """A worker has died, and the client does not answer; the message is a sentence that names it."""


class ProcessDiedError(ClusterError):
    """A process of a set has died while the set was started; another set may well start."""


@final
class WorkerSet:
    """One worker process for every server device of `cluster`, and a client beside the first.

    `close` ends all of them; a set that lost a process is closed and a new one is started.
    """

    def __init__(self, cluster: ClusterSpec, settings: SetSettings, name: str) -> None:
        """Start all processes; TensorFlow is loaded side by side. Raises `ClusterError` when they cannot be placed."""
        self.cluster = cluster
        self.settings = settings
        self._group = self._place(name)
        workers = [(node, worker) for node in cluster.nodes for worker in range(node.workers)]
        self.client = self._actor(ClientProcess, 0, name=f"{name}-client", num_cpus=0, num_gpus=0).remote(
            settings.import_paths, settings.trials_a_connection
        )
        self.workers = [
            self._actor(
                WorkerProcess,
                index,
                name=f"{name}-worker-{node.name}-{worker}",
                num_cpus=settings.cpus_per_worker,
                num_gpus=node.gpus,
                max_concurrency=2,  # one of them for `live`
            ).remote(node.address, node.cores / node.workers, cluster.paced, addresses_of(cluster))
            for index, (node, worker) in enumerate(workers)
        ]
        self._lives = [worker.live.remote() for worker in self.workers]
        self.exposure = ""
        """A sentence on where the workers' servers listen, once the set is connected."""

    def capture(self, model: str) -> bytes:
        """Capture `model` in the client. Raises `ModelError`, and `SpecError` where the profile does not fit it."""
        gpus = sum(node.gpus for node in self.cluster.nodes)
        seconds = self.settings.capture_seconds
        reference = self.client.capture.remote(model, gpus, self.settings.profile)
        if not ray.wait([reference], timeout=seconds)[0]:
            raise too_slow(model, seconds)
        return self._get(reference, "capturing the model")

    def load(self, captured: Any) -> None:
        """Give the client a model captured before; `captured` may be an object reference to its bytes."""
        self._get(self.client.load.remote(captured), "loading the model")

    def model(self) -> tuple[ModelSpec, tuple[str, ...]]:
        """The captured model's spec and notes."""
        return self._get(self.client.model.remote(), "describing the model")

    def check_room(self) -> str:
        """Return a sentence on the memory that the model takes. Raises `ClusterError` if a machine has too little."""
        model, _ = self.model()
        if not any(node.gpus for node in self.cluster.nodes):  # GPUs have memory of their own
            asked = [worker.memory.remote() for worker in self.workers]
            check_room(model, [self._get(answer, "looking at memory") for answer in asked])
        return memory_in_words(model)

    def connect(self) -> None:
        """Join the client to all workers; a model must have been captured or loaded."""
        answers = [worker.address.remote() for worker in self.workers]
        listening = [self._get(answer, "starting the workers") for answer in answers]
        addresses = [address for address, _ in listening]
        self.exposure = servers_listen(
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
        """The cluster as measured, and the report of it. Raises `ClusterError`, naming nodes that do not answer."""
        return self._get(self.client.probe.remote(self.cluster), "probing the links")

    def open_session(self, cluster: ClusterSpec, clock: Clock) -> None:
        self.cluster = cluster
        self._get(self.client.open_session.remote(cluster, clock, self.waits()), "placing the model")

    def waits(self) -> dict[str, Any] | None:
        """The waits that workers of a paced cluster offer, by server device; None if the cluster is not paced."""
        if not self.cluster.paced:
            return None
        offered = [self._get(worker.offer_waits.remote(), "pacing the workers") for worker in self.workers]
        return dict(zip(map(str, self.cluster.server_devices), offered, strict=True))

    def begin(self, request: TrialRequest | TargetRequest) -> Any:
        """Begin one trial in the client; return a reference to its record."""
        return self.client.run.remote(request)

    def answer(self, reference: Any, seconds: float) -> Any:
        """Return the answer of the client or a worker, waited for up to `seconds`.

        Raises `GetTimeoutError` when they are over, `WorkerDiedError`, and what Ray raises for a call that failed.
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
        """A sentence naming the processes that have died or hang, or None while all answer.

        A `busy_client`, whose answer would have to wait for a trial, is not asked.
        """
        actors = {f"worker {index} on {node}": each for index, (node, each) in enumerate(self._named_workers())}
        if not busy_client:
            actors["the client"] = self.client
        asked = {name: actor.pid.remote() for name, actor in actors.items()}
        ray.wait(list(asked.values()), num_returns=len(asked), timeout=self.settings.answer_seconds)
        return _sentence(f"{name} {fault}" for name, reference in asked.items() if (fault := _fault(reference))) or None

    def pids(self) -> dict[str, int]:
        """Process ids of the client and the workers, by role."""
        actors = {"client": self.client} | {f"worker-{index}": each for index, each in enumerate(self.workers)}
        return dict(zip(actors, ray.get([each.pid.remote() for each in actors.values()]), strict=True))

    def close(self) -> None:
        """End every process of the set and give its place back. A second call does no harm."""
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
                held = NODE_SHARE / node.workers if self.settings.exclusive else ANY_SHARE
                bundle = {"CPU": self.settings.cpus_per_worker, f"node:{node.address}": held}
                bundles.append(bundle | ({"GPU": float(node.gpus)} if node.gpus else {}))
        group = placement_group(bundles, strategy="PACK", name=name)
        if not self._is_placed(group):
            remove_placement_group(group)
            raise ClusterError(_no_place(self.cluster, self.settings))
        return group

    def _is_placed(self, group: Any) -> bool:
        """Whether the group gets its place, waited for while there is hope: a node that has left gives none."""
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
        """The answer, with our own errors as they were raised and Ray's as a `ClusterError`.

        Whatever is raised when a worker has died is a `ProcessDiedError` instead: it may be why.
        """
        try:
            return _answered(lambda: self.answer(reference, self.settings.start_timeout_seconds), what)
        except ModelError:
            raise
        except (AutosyncError, RayTaskError) as error:
            if dead := self._dead_workers():
                why = str(error) if isinstance(error, AutosyncError) else reason_of(error)
                raise ProcessDiedError(f"{dead} ({why})") from None
            raise

    def _dead_workers(self) -> str:
        """A sentence naming the workers that are dead, or will be at once, or nothing."""
        ready, _ = ray.wait(self._lives, timeout=NOTICE_SECONDS)
        workers = zip(self._lives, enumerate(self._named_workers()), strict=True)
        return _sentence(f"worker {index} on {node} has died" for life, (index, (node, _)) in workers if life in ready)


def _sentence(parts: Iterable[str]) -> str:
    """The parts with commas between them, or nothing when there are none."""
    whole = ", ".join(parts)
    return f"{whole[0].upper()}{whole[1:]}." if whole else ""


def _no_place(cluster: ClusterSpec, settings: SetSettings) -> str:
    """The reason why workers cannot be placed, as far as what is free tells."""
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


def _answered(get: Callable[[], T], what: str) -> T:
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
