"""Places to train: worker processes on Ray, or logical devices of this process."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, final

from autosync.engine.core.contract import Captured, Runner
from autosync.engine.core.registry import DEFAULT, check_engine_installed, engine_named
from autosync.errors import ClusterError, TrainingError
from autosync.spec import ClusterSpec, Strategy

PACED = (
    "Passes are paced: training computes real gradients and delays them to their scheduled time. Trials replay "
    "recorded gradients in almost no processor time, so if nodes share processors, a step of training takes longer."
)
"""Explains why a step takes longer than a search predicted on an emulated cluster."""


@dataclass(frozen=True)
class PlaceOptions:
    """The options that select the place to train."""

    cluster: ClusterSpec | str | os.PathLike[str] | None = None
    """A `ClusterSpec`, a cluster file, or the address of a Ray cluster; None for $RAY_ADDRESS, or a local cluster."""
    backend: str = "ray"
    """"ray" or "local"."""
    workers: int | None = None
    """Worker processes; None for as many as the strategy names on one node, otherwise one a node."""
    address: str | None = None
    """The address of the Ray cluster, which wins over `cluster`."""
    working_dir: Path | None = None
    """The folder that Ray sends to the workers; None for no folder."""
    framework: str = DEFAULT
    """The engine that trains, by name."""


class TrainingPlace(Protocol):
    """A cluster on which a model can be placed."""

    @property
    def cluster(self) -> ClusterSpec: ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the cluster, one a line."""
        ...

    @property
    def exposure(self) -> str:
        """A sentence on the addresses where servers listen, once a model is placed; empty if no server listens."""
        ...

    def open(self, captured: Captured, strategy: Strategy) -> Runner:
        """Place the model as `strategy` describes. Raises `ClusterError` or `SpecError`."""
        ...

    def close(self) -> None:
        """End every process that was started here; a second call does nothing."""


def open_place(where: PlaceOptions, workers_named: int | None) -> TrainingPlace:
    """Return the place that `where` selects; `workers_named` is the number of workers that the strategy names on one
    node.

    Raises `ClusterError`, or `TrainingError` for an unknown back end.
    """
    if where.backend == "local":
        cluster = _read_cluster(where.cluster) or _single_node(where.workers or workers_named)
        return InThisProcess(cluster, where.framework)
    if where.backend != "ray":
        raise TrainingError(f"backend must be 'ray' or 'local', not {where.backend!r}.")
    return OnRay(where, workers_named)


def use_logical_devices(count: int, paced_replicas: int = 0, framework: str = DEFAULT) -> None:
    """Split this process's CPU into `count` devices, to train on a whole cluster in one process.

    Call this before the framework is used. `paced_replicas` adds one thread for each such replica, because a paced
    replica waits in a thread. Raises `ClusterError` if the framework is already in use with another number of devices,
    and `ModelError` if it is not installed.
    """
    check_engine_installed(framework)
    engine_named(framework).use_logical_devices(count, paced_replicas)


@final
class InThisProcess:
    """Trains on logical devices of this process, one for each worker of `cluster`: no Ray, no network; for experiments.

    Call `use_logical_devices` before the framework is used.
    """

    def __init__(self, cluster: ClusterSpec, framework: str = DEFAULT) -> None:
        self.cluster = cluster
        self._framework = framework
        self.notes = ("Every worker is a logical device of this process, so links are its memory.",)
        count = len(cluster.server_devices)
        try:
            use_logical_devices(count, count if cluster.paced else 0, framework)
        except ClusterError:
            raise TrainingError(
                f"This process has fewer than {count} logical devices, and the framework is in use already; call "
                f"autosync.train.use_logical_devices({count}) before the model is built."
            ) from None

    exposure = ""

    def open(self, captured: Captured, strategy: Strategy) -> Runner:
        return engine_named(self._framework).local_training(captured, self.cluster, strategy)

    def close(self) -> None:
        """Do nothing: there is no other process to end."""


@final
class OnRay:
    """Trains in worker processes on Ray's nodes, one set for one trainer.

    Ray itself is ended too if it was started here.
    """

    def __init__(self, where: PlaceOptions, workers_named: int | None) -> None:
        import ray

        from trials.cluster.discovery import cluster_from_ray_nodes, match_cluster
        from trials.opening import trials_on_ray
        from trials.workers.local_ray import RayStart, start_ray
        from trials.workers.worker_set import WorkerSet

        stated = _read_cluster(where.cluster)
        address = where.address or (str(where.cluster) if where.cluster is not None and stated is None else None)
        self._began_ray = not ray.is_initialized()
        self._closed = False
        notes = []
        workers = where.workers or workers_named
        if self._began_ray:
            notes.append(start_ray(RayStart(address, workers, dashboard=False, working_dir=where.working_dir)))
        try:
            nodes = ray.nodes()
            if stated is not None:
                self.cluster = match_cluster(stated, nodes)
            else:
                alone = sum(bool(node.get("Alive")) for node in nodes) == 1
                self.cluster = cluster_from_ray_nodes(nodes, workers if alone or where.workers else None)
            settings = trials_on_ray(self.cluster, probe=False, framework=where.framework).workers
            self._workers: Any = WorkerSet(self.cluster, settings, f"autosync-train-{uuid.uuid4().hex[:6]}")
        except BaseException:
            self._end_ray()
            raise
        self.notes = tuple(notes)

    @property
    def exposure(self) -> str:
        exposure: str = self._workers.exposure
        return exposure

    def open(self, captured: Captured, strategy: Strategy) -> Runner:
        from autosync.train.on_ray import RayTraining

        return RayTraining(self._workers, captured.to_bytes(), strategy)

    def close(self) -> None:
        import ray

        if not self._closed and ray.is_initialized():
            self._workers.close()
            self._end_ray()
        self._closed = True

    def _end_ray(self) -> None:
        import ray

        from trials.signals import ctrl_c_waits

        if self._began_ray and ray.is_initialized():
            with ctrl_c_waits():
                ray.shutdown()


def _read_cluster(cluster: ClusterSpec | str | os.PathLike[str] | None) -> ClusterSpec | None:
    """Return a cluster given as a `ClusterSpec` or a file; None for an address."""
    if cluster is None or isinstance(cluster, ClusterSpec):
        return cluster
    if not isinstance(cluster, str) or cluster.endswith((".yaml", ".yml")):
        from trials.cluster.file import read_cluster_file

        return read_cluster_file(Path(cluster))
    return None


def _single_node(workers: int | None) -> ClusterSpec:
    from trials.cluster.discovery import WORKERS_OF_A_SINGLE_NODE, local_cluster

    return local_cluster(WORKERS_OF_A_SINGLE_NODE if workers is None else workers)
