"""A process on the head of an emulated cluster: its start, its lines of output, and the back end of its trials."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import ray

from autosync.errors import ClusterError
from autosync.spec import DeviceProfile
from autosync.stats.cells import CellName
from studies.collect.folder import Folder
from trials.cluster.discovery import cluster_from_ray_nodes
from trials.cluster.node_matching import addresses_of, seat_at, unlike_machines
from trials.emulate import Host, start_inside
from trials.fleet.on_ray import Launch, RayBackend
from trials.opening import model_on, trials_on_ray

OPENING_SECONDS = 600.0
"""Seconds allowed for Ray, the workers and the capture of a model, before a process counts as hung and is ended."""

PASSIVE = {"OMP_WAIT_POLICY": "passive"}
"""After fitting a simulator, the threads of OpenMP do not spin on the cores of the workers."""

BROKEN = 1
"""The exit status of a process after an error that would affect all its models."""


def lines_on_head(head: Host, module: str, request: str, patience_seconds: float) -> Iterator[str]:
    """Run `module` on `head` with `request` as its argument, and yield the lines of its output.

    Raises `ClusterError` if the process is silent for `patience_seconds` or dies. If the caller stops early, the
    process ends with its cluster.
    """
    child = start_inside(
        head,
        [sys.executable, "-m", module, request],
        # The process computes proposals; limited to the head's share of a core, it would delay the trials.
        within_quota=False,
        env=os.environ | PASSIVE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_pour, args=(child.stdout, lines), daemon=True).start()
    while (line := _next(lines, patience_seconds)) is not None:
        yield line.rstrip()
    child.wait()
    if child.returncode < 0:
        raise ClusterError(f"The process that ran the trials was ended by signal {-child.returncode}.")


def end_with_the_caller() -> None:
    """End this process together with the command that started it, even if that is killed: its pipe closes then."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)  # returns only at the end of the pipe, which no process writes to
        os._exit(BROKEN)

    threading.Thread(target=wait, daemon=True).start()


def backend_on_head(folder: Folder, cell: CellName, framework: str, profile: DeviceProfile | None = None) -> RayBackend:
    """Return a back end with the captured model on Ray's cluster, with the figures of the cluster and the profile of
    the model that `folder` keeps.

    The first back end on a cluster measures it and writes the figures into `folder`. Raises `ClusterError` if the
    machines are not as first measured, and as `RayBackend` does.
    """
    cluster = cluster_from_ray_nodes(ray.nodes())
    before = folder.read_cluster(cell.cluster)
    if before is not None:
        if different := unlike_machines(before, cluster):
            raise ClusterError(f"Cluster {cell.cluster!r} must be as first measured, but has {different}.")
        cluster = seat_at(before, addresses_of(cluster))
    settings = trials_on_ray(
        cluster,
        probe=before is None,
        profile=profile,
        framework=framework,
        kept_profile=folder.kept_profile(cell.model),
    )
    backend = RayBackend(Launch(model_on(cell.model, cluster), cluster, settings))
    if before is None:
        folder.write_cluster(cell.cluster, backend.cluster, backend.probing)
    return backend


def _pour(stream: Any, lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _next(lines: queue.Queue[str | None], patience_seconds: float) -> str | None:
    """Return the next line, or None at the end."""
    try:
        return lines.get(timeout=patience_seconds)
    except queue.Empty:
        raise ClusterError(f"The trials gave no output for {patience_seconds:g} s; they are ended.") from None
