"""Places where training runs: worker processes on Ray, or logical devices of this process."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final

from autosync.engine.training.training import Runner, Training
from autosync.errors import TrainingError
from autosync.spec import ClusterSpec, Strategy

if TYPE_CHECKING:
    from autosync.engine.capture.captured import CapturedModel


@dataclass(frozen=True)
class Where:
    """The place asked for. `cluster` is a `ClusterSpec`, a cluster file, or the address of a Ray cluster.

    `workers` is None for as many as the strategy names on one node, and else one a node.
    """

    cluster: ClusterSpec | str | os.PathLike[str] | None = None
    backend: str = "ray"
    workers: int | None = None
    address: str | None = None
    working_dir: Path | None = None


class Place(Protocol):
    """A cluster on which a model can be placed."""

    @property
    def cluster(self) -> ClusterSpec: ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Findings about the cluster, a line each."""
        ...

    @property
    def exposure(self) -> str:
        """A sentence on where servers listen, once a model is placed; empty if none does."""
        ...

    def open(self, captured: CapturedModel, strategy: Strategy) -> Runner:
        """Place the model as `strategy` says. Raises `ClusterError` or `SpecError`."""
        ...

    def close(self) -> None:
        """End every process that was started here. To call it twice is fine."""


def open_place(where: Where, workers_named: int | None) -> Place:
    """The place that `where` asks for; `workers_named` are those the strategy names on a single node.

    Raises `ClusterError`, or `TrainingError` for a back end that does not exist.
    """
    if where.backend == "local":
        return InThisProcess(_stated(where.cluster) or _one_node(where.workers or workers_named))
    if where.backend != "ray":
        raise TrainingError(f"backend must be 'ray' or 'local', not {where.backend!r}.")
    return OnRay(where, workers_named)


@final
class InThisProcess:
    """Every worker of `cluster` is a logical device of this process: no Ray, no network; for trying things out.

    Call `use_logical_devices` before Keras or TensorFlow are used.
    """

    def __init__(self, cluster: ClusterSpec) -> None:
        from autosync.engine.servers import use_logical_devices
        from autosync.errors import ClusterError

        self.cluster = cluster
        self.notes = ("Every worker is a logical device of this process, so links are its memory.",)
        count = len(cluster.server_devices)
        try:
            use_logical_devices(count, count if cluster.paced else 0)
        except ClusterError:
            raise TrainingError(
                f"This process has fewer than {count} logical devices, and TensorFlow is in use already; call "
                f"autosync.train.use_logical_devices({count}) before the model is built."
            ) from None

    exposure = ""

    def open(self, captured: CapturedModel, strategy: Strategy) -> Training:
        from autosync.engine.placement import Placement
        from autosync.engine.step.realize import Session

        cluster = self.cluster.with_real_gradients
        return Training(Session(captured, cluster, Placement.in_one_process(cluster)), strategy)

    def close(self) -> None:
        """Do nothing: there is no other process to end."""


@final
class OnRay:
    """Worker processes on Ray's nodes, one set for one trainer; Ray itself is ended too if it was started here."""

    def __init__(self, where: Where, workers_named: int | None) -> None:
        import ray

        from trials.cluster.discovery import cluster_from_ray_nodes, matched
        from trials.opening import trials_on_ray
        from trials.workers.local_ray import RayStart, start_ray
        from trials.workers.worker_set import WorkerSet

        stated = _stated(where.cluster)
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
                self.cluster = matched(stated, nodes)
            else:
                alone = sum(bool(node.get("Alive")) for node in nodes) == 1
                self.cluster = cluster_from_ray_nodes(nodes, workers if alone or where.workers else None)
            settings = trials_on_ray(self.cluster, probe=False).workers
            self._workers: Any = WorkerSet(self.cluster, settings, f"autosync-train-{uuid.uuid4().hex[:6]}")
        except BaseException:
            self._end_ray()
            raise
        self.notes = tuple(notes)

    @property
    def exposure(self) -> str:
        exposure: str = self._workers.exposure
        return exposure

    def open(self, captured: CapturedModel, strategy: Strategy) -> Runner:
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


def _stated(cluster: ClusterSpec | str | os.PathLike[str] | None) -> ClusterSpec | None:
    """A cluster given as such or by a file; None for an address."""
    if cluster is None or isinstance(cluster, ClusterSpec):
        return cluster
    if not isinstance(cluster, str) or cluster.endswith((".yaml", ".yml")):
        from trials.cluster.file import read_cluster_file

        return read_cluster_file(Path(cluster))
    return None


def _one_node(workers: int | None) -> ClusterSpec:
    from trials.cluster.discovery import WORKERS_OF_A_SINGLE_NODE, local_cluster

    return local_cluster(WORKERS_OF_A_SINGLE_NODE if workers is None else workers)
