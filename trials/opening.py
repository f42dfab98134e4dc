"""Opening a back end for one model: on Ray's cluster, or in this very process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosync.engine.capture_apart import CAPTURE_SECONDS, captured_apart, tried_apart
from autosync.engine.loading import load_tensorflow, quiet_log
from autosync.engine.zoo import ALIASES, MODELS, build_task, resolve_name
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, DeviceProfile, Strategy, listed, read_device_profile, read_json
from trials.cluster.discovery import WORKERS_OF_A_SINGLE_NODE, cluster_from_ray_nodes, local_cluster, matched
from trials.cluster.file import read_cluster_file
from trials.fleet.lanes import Backend

if TYPE_CHECKING:
    from trials.fleet.supervisor import RaySettings

KINDS = ("ray", "local")


@dataclass(frozen=True)
class Choice:
    """The model to time, and where. `workers` is None for as many as the cluster has by default, or its file states.

    `capture_seconds` limit building and capturing the model; paced passes follow `profile`.
    """

    model: str
    kind: str = "ray"
    workers: int | None = None
    address: str | None = None
    capture_seconds: float = CAPTURE_SECONDS
    cluster: Path | None = None
    profile: DeviceProfile | None = None


@dataclass(frozen=True)
class Opened:
    """A back end ready to run trials, and the notes made on the way, one line each."""

    backend: Backend
    notes: tuple[str, ...]


def read_strategy_file(file: Path) -> Strategy:
    """The strategy in `file`, which `Strategy.to_json` wrote. Raises `SpecError`."""
    try:
        return Strategy.from_json(read_json(file, f"Strategy file {str(file)!r}"))
    except OSError as error:
        raise SpecError(f"Strategy file {str(file)!r} cannot be read: {error.strerror}.") from None


def check_profile(profile: object | None, cluster: ClusterSpec) -> None:
    """Raise `SpecError` for a `profile`, or a file with one, where no passes are paced by it."""
    if profile is not None and not cluster.paced:
        raise SpecError(
            "--profile is what paced passes follow, but no node of this cluster is paced; give the nodes a pace, or "
            "leave it out."
        )


def check_profile_of(file: Path, models: Iterable[str], clusters: Iterable[ClusterSpec], choice: str) -> None:
    """Raise `SpecError` for a `file` without a profile, or with one that some pass of `models` on `clusters` is not by.

    `choice` is the option that says which models there are.
    """
    read_device_profile(file)
    if len(names := list(dict.fromkeys(models))) > 1:
        raise SpecError(f"--profile is of one model, but here are {listed(names)}; choose its model with {choice}.")
    for cluster in clusters:
        check_profile(file, cluster)


@contextmanager
def opened(choice: Choice) -> Iterator[Opened]:
    """The back end that `choice` asks for; every process it started is ended in the end.

    Raises `ModelError` or `ClusterError`.
    """
    ready = _on_ray(choice) if choice.kind == "ray" else _in_this_process(choice)
    try:
        yield ready
    finally:
        ready.backend.close()


def _on_ray(choice: Choice) -> Opened:
    import ray

    from trials.workers.local_ray import RayStart, start_ray

    joined = ""

    def join() -> None:
        nonlocal joined
        joined = start_ray(RayStart(choice.address, choice.workers, dashboard=False))

    try_model(choice.model, choice.capture_seconds, choice.address, meanwhile=join)
    from trials.fleet.on_ray import Launch, RayBackend

    nodes = ray.nodes()
    stated = None if choice.cluster is None else read_cluster_file(choice.cluster)
    cluster = cluster_from_ray_nodes(nodes, choice.workers) if stated is None else matched(stated, nodes)
    settings = trials_on_ray(cluster, capture_seconds=choice.capture_seconds, profile=choice.profile)
    backend = RayBackend(Launch(model_on(choice.model, cluster), cluster, settings))
    return Opened(backend, (joined, model_line(choice.model, cluster), *backend.notes))


def try_model(model: str, seconds: float, address: str | None, meanwhile: Callable[[], Any]) -> None:
    """Call `meanwhile`, which starts Ray, and try a model of the user's own meanwhile, before workers are started.

    A cluster that is joined captures the model on a node of its own, with that node's packages, so nothing is tried
    here then. Raises `ModelError`.
    """
    if ":" not in model or address or os.environ.get("RAY_ADDRESS"):
        meanwhile()
    else:
        tried_apart(model, seconds, meanwhile)


def trials_on_ray(
    cluster: ClusterSpec,
    probe: bool = True,
    capture_seconds: float = CAPTURE_SECONDS,
    profile: DeviceProfile | None = None,
) -> RaySettings:
    """How trials on `cluster` run on the Ray that this process has joined; its links are measured first if `probe`.

    Raises `SpecError` for a `profile` where no passes are paced by it.
    """
    check_profile(profile, cluster)
    from trials.fleet.on_ray import RaySettings
    from trials.workers.local_ray import cpus_per_worker
    from trials.workers.worker_set import SetSettings

    paths = os.getcwd(), _source()
    cpus = cpus_per_worker(cluster)
    workers = SetSettings(cpus, import_paths=paths, capture_seconds=capture_seconds, profile=profile)
    return RaySettings(workers, probe=probe)


def model_on(name: str, cluster: ClusterSpec) -> str:
    """The full name of the model that `name` means on this cluster."""
    return resolve_name(name, sum(node.gpus for node in cluster.nodes))


def _in_this_process(choice: Choice) -> Opened:
    with quiet_log():
        return _captured_here(choice)


def _captured_here(choice: Choice) -> Opened:
    is_own = ":" in choice.model
    apart = captured_apart(choice.model, choice.capture_seconds, meanwhile=load_tensorflow) if is_own else b""
    load_tensorflow()
    from autosync.engine.capture.captured import CapturedModel
    from autosync.engine.capture.capturing import capture
    from autosync.engine.capture.profile import profiled
    from autosync.engine.servers import use_logical_devices
    from trials.fleet.here import LocalBackend

    cluster = local_cluster(WORKERS_OF_A_SINGLE_NODE if choice.workers is None else choice.workers)
    use_logical_devices(len(cluster.server_devices))  # before capturing, which uses TensorFlow
    captured = profiled(CapturedModel.from_bytes(apart) if is_own else capture(build_task(choice.model)))
    backend = LocalBackend(captured.to_bytes(), cluster)
    where = "Every worker is a logical device of this process, so links are its memory."
    return Opened(backend, (where, model_line(choice.model, cluster), *captured.notes))


def model_line(name: str, cluster: ClusterSpec) -> str:
    """A line that says which model `name` is on this cluster, and why."""
    gpus = sum(node.gpus for node in cluster.nodes)
    full_name = resolve_name(name, gpus)
    about = MODELS.get(full_name, "your own")
    if name not in ALIASES:
        return f"Model {full_name}: {about}"
    found = f"{gpus} GPU(s)" if gpus else "no GPU"
    return f"Model {full_name}: {about} (picked for {name!r} because the cluster has {found})"


def _source() -> str:
    """The folder that this package was imported from, so that worker processes import the same."""
    return str(Path(__file__).resolve().parents[1])
