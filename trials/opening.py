"""Opens a back end for one model, on Ray's cluster or in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosync.engine.core.contract import Engine
from autosync.engine.core.registry import DEFAULT, check_engine_installed, engine_named
from autosync.errors import SpecError
from autosync.spec import (
    ClusterSpec,
    DeviceProfile,
    KeptProfile,
    Strategy,
    read_device_profile,
    read_json,
    shorten_list,
)
from autosync.zoo import ALIASES, MODELS, build_task, framework_by_name, resolve_name
from trials.capture_in_subprocess import CAPTURE_SECONDS, capture_in_subprocess, try_in_subprocess
from trials.cluster.discovery import WORKERS_OF_A_SINGLE_NODE, cluster_from_ray_nodes, local_cluster, match_cluster
from trials.cluster.file import read_cluster_file
from trials.cluster.node_matching import addresses_of, groups_of
from trials.fleet.lanes import Backend
from trials.workers.import_places import ImportPlace, places_in

if TYPE_CHECKING:
    from trials.fleet.supervisor import RaySettings

KINDS = ("ray", "local")


@dataclass(frozen=True)
class BackendOptions:
    """The model to time, and the back end to time it on."""

    model: str
    """A zoo model, or the user's own as package.module:function."""
    kind: str = "ray"
    """"ray" or "local"."""
    workers: int | None = None
    """Worker processes in all; None for the default of the cluster or the number that its file states."""
    address: str | None = None
    """The address of a Ray cluster to join; None for $RAY_ADDRESS, or a local Ray."""
    capture_seconds: float = CAPTURE_SECONDS
    """The time limit for building and capturing the model."""
    cluster: Path | None = None
    """A cluster file; None to discover the cluster."""
    profile: DeviceProfile | None = None
    """The profile that paced passes follow; None for the profile measured in the capture."""
    nodes_per_trial: int | None = None
    """The nodes of a lane; None for all nodes."""
    node_wait_seconds: float | None = None
    """With a number, the back end is a `Fleet`, which replaces nodes that leave, or waits that long for others."""
    framework: str | None = DEFAULT
    """The engine that carries out trials, by name; None for that of the model."""


@dataclass(frozen=True)
class OpenBackend:
    """A back end that is ready to run trials."""

    backend: Backend
    notes: tuple[str, ...]
    """Notes on the cluster and the model, one a line."""


def read_strategy_file(file: Path) -> Strategy:
    """Read a strategy that `Strategy.to_json` wrote to `file`. Raises `SpecError`."""
    try:
        return Strategy.from_json(read_json(file, f"Strategy file {str(file)!r}"))
    except OSError as error:
        raise SpecError(f"Strategy file {str(file)!r} cannot be read: {error.strerror}.") from None


def check_profile(profile: object | None, cluster: ClusterSpec) -> None:
    """Raise `SpecError` for a `profile`, or a file with one, if no node of `cluster` is paced."""
    if profile is not None and not cluster.paced:
        raise SpecError(
            "--profile applies to paced passes, but no node of this cluster is paced; give the nodes a pace, or "
            "leave it out."
        )


def check_profile_of(file: Path, models: Iterable[str], clusters: Iterable[ClusterSpec], choice: str) -> None:
    """Raise `SpecError` for a `file` without a profile, for more than one model, or for a cluster without paced nodes.

    `choice` is the option that selects the model.
    """
    read_device_profile(file)
    if len(names := list(dict.fromkeys(models))) > 1:
        raise SpecError(
            f"--profile belongs to one model, but here are {shorten_list(names)}; choose its model with {choice}."
        )
    for cluster in clusters:
        check_profile(file, cluster)


@contextmanager
def open_backend(choice: BackendOptions, tell: Callable[[str], None] = lambda _line: None) -> Iterator[OpenBackend]:
    """Open the back end of `choice` for a block; at the end of the block, its processes are ended.

    `tell` gets a sentence when lanes of a fleet change. Raises `ModelError` or `ClusterError`.
    """
    check_engine_installed(choice.framework)
    ready = _on_ray(choice, tell) if choice.kind == "ray" else _in_this_process(choice)
    try:
        yield ready
    finally:
        ready.backend.close()


def _on_ray(choice: BackendOptions, tell: Callable[[str], None]) -> OpenBackend:
    import ray

    from trials.workers.local_ray import RayStart, start_ray

    joined = ""

    def join() -> None:
        nonlocal joined
        joined = start_ray(RayStart(choice.address, choice.workers, dashboard=False))

    framework = try_model(choice.model, choice.capture_seconds, choice.address, join, choice.framework)
    from trials.fleet.fleet import Fleet, FleetSettings
    from trials.fleet.on_ray import Launch, RayBackend

    nodes = ray.nodes()
    stated = None if choice.cluster is None else read_cluster_file(choice.cluster)
    cluster = cluster_from_ray_nodes(nodes, choice.workers) if stated is None else match_cluster(stated, nodes)
    groups = groups_of(cluster, choice.nodes_per_trial) if choice.nodes_per_trial else [cluster]
    settings = trials_on_ray(
        groups[0], capture_seconds=choice.capture_seconds, profile=choice.profile, framework=framework
    )
    model = model_on(choice.model, cluster)
    backend: RayBackend | Fleet
    if choice.node_wait_seconds is None:
        backend = RayBackend(Launch(model, groups[0], settings))
    else:
        usable = frozenset(addresses_of(cluster)) if stated is not None or choice.workers is not None else None
        backend = Fleet(model, groups, FleetSettings(settings, choice.node_wait_seconds, usable), tell)
    return OpenBackend(backend, (joined, model_line(choice.model, cluster), *backend.notes))


def try_model(
    model: str,
    seconds: float,
    address: str | None,
    meanwhile: Callable[[], Any],
    framework: str | None = DEFAULT,
    folder: Path | None = None,
) -> str:
    """Call `meanwhile`, which starts Ray, and try the user's own model at the same time, before workers are started.
    Return the model's framework.

    A cluster that is joined captures the model on one of its nodes, with that node's packages, so nothing is tried
    here, except on a node if no `framework` is stated. `folder` is searched first for the model's module. Raises
    `ModelError`.
    """
    stated = framework_by_name(model, framework)
    if ":" in model and not (address or os.environ.get("RAY_ADDRESS") or has_joined_ray()):
        return try_in_subprocess(model, seconds, meanwhile, stated, folder)
    meanwhile()
    if stated is not None:
        return stated
    from trials.workers.framework_on_node import framework_on_node

    return framework_on_node(model, seconds, _import_places(folder))


def has_joined_ray() -> bool:
    """Whether this process has joined Ray already; Ray is not loaded for that."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def trials_on_ray(
    cluster: ClusterSpec,
    probe: bool = True,
    capture_seconds: float = CAPTURE_SECONDS,
    profile: DeviceProfile | None = None,
    framework: str = DEFAULT,
    folder: Path | None = None,
    kept_profile: KeptProfile | None = None,
) -> RaySettings:
    """Return the settings of trials on `cluster` on the Ray that this process has joined; `probe` measures the links
    first.

    `folder` is searched first for the model's module, and `kept_profile` replaces the measurement of a profile. Raises
    `SpecError` for a `profile` if no node is paced.
    """
    check_profile(profile, cluster)
    from trials.fleet.on_ray import RaySettings
    from trials.workers.local_ray import cpus_per_worker
    from trials.workers.worker_set import SetSettings

    cpus = cpus_per_worker(cluster)
    workers = SetSettings(
        cpus,
        import_places=_import_places(folder),
        capture_seconds=capture_seconds,
        profile=profile,
        kept_profile=kept_profile,
        engine=framework,
    )
    return RaySettings(workers, probe=probe)


def model_on(name: str, cluster: ClusterSpec) -> str:
    """Return the full name of the model `name` on this cluster."""
    return resolve_name(name, sum(node.gpus for node in cluster.nodes))


def _in_this_process(choice: BackendOptions) -> OpenBackend:
    framework, in_bytes = framework_by_name(choice.model, choice.framework), b""
    if ":" in choice.model:
        load = (lambda: None) if framework is None else engine_named(framework).load
        framework, in_bytes = capture_in_subprocess(choice.model, choice.capture_seconds, load, framework)
    assert framework is not None, "only the framework of a user's own model is open"
    engine = engine_named(framework)
    with engine.quiet_log():
        return _capture_here(choice, engine, in_bytes)


def _capture_here(choice: BackendOptions, engine: Engine, in_bytes: bytes) -> OpenBackend:
    """The back end in this process; `in_bytes` is the captured model of a user, or empty for a model of the zoo."""
    from trials.fleet.local_backend import LocalBackend

    engine.load()
    cluster = local_cluster(WORKERS_OF_A_SINGLE_NODE if choice.workers is None else choice.workers)
    engine.use_logical_devices(len(cluster.server_devices))  # before capturing, because that uses the framework
    captured = engine.profile(
        engine.load_captured(in_bytes) if in_bytes else engine.capture(build_task(choice.model, framework=engine.name))
    )
    backend = LocalBackend(captured.to_bytes(), cluster, engine=engine.name)
    where = "Every worker is a logical device of this process, so links are its memory."
    return OpenBackend(backend, (where, model_line(choice.model, cluster), *captured.notes))


def model_line(name: str, cluster: ClusterSpec) -> str:
    """Return a line that names the model chosen for `name` on this cluster, and the reason."""
    gpus = sum(node.gpus for node in cluster.nodes)
    full_name = resolve_name(name, gpus)
    about = MODELS.get(full_name, "your own")
    if name not in ALIASES:
        return f"Model {full_name}: {about}"
    hardware = f"{gpus} GPU(s)" if gpus else "no GPU"
    return f"Model {full_name}: {about} (picked for {name!r} because the cluster has {hardware})"


def _import_places(folder: Path | None) -> tuple[ImportPlace, ...]:
    """The places in `folder`, the current folder, and the folder that this package was imported from, so that other
    processes import the same code.
    """
    return *places_in(folder), os.getcwd(), str(Path(__file__).resolve().parents[1])
