"""Ray for trials: joins a named cluster or starts a small local one, and watches its head."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray._private import ray_constants
from ray._private import utils as ray_utils

from autosync.engine.core.proxies import bypass_proxies
from autosync.errors import ClusterError
from autosync.shadows import check_folders
from autosync.spec import ClusterSpec
from trials.cluster.addresses import check_ipv4_to_join
from trials.cluster.discovery import LOOPBACK, WORKERS_OF_A_SINGLE_NODE, check_room_here
from trials.cluster.ray_labels import CORES_RESOURCE, RAY_SETTINGS
from trials.guard import guard_of_this_process
from trials.signals import ctrl_c_is_ignored, end_signal, handlers_stay
from trials.trial import reason_of
from trials.workers.ray_token import agree_on_token, ensure_private_token
from trials.workers.ray_versions import version_mismatch
from trials.workers.starting import local_ray

NOT_SHIPPED = ["/.git", "/.venv", "/data", "/runs", "**/__pycache__"]
"""The parts of a working directory that are not sent, in the syntax of .gitignore."""

REACH_SECONDS = 10.0
"""Seconds that a cluster's head may take to accept a connection."""


@dataclass(frozen=True)
class RayStart:
    """How to connect to Ray."""

    address: str | None = None
    """The cluster to join; None for the one in RAY_ADDRESS, or else a new local Ray."""
    workers: int | None = None
    """Worker processes in all; None for the default."""
    dashboard: bool = True
    working_dir: Path | None = None
    """A folder that is copied to every node and imported from there; None for no folder."""


def check_workers(workers: int | None, address: str | None) -> None:
    """Raise `ClusterError` for an IPv6 address to join, or for more workers than a local Ray could hold.

    A cluster to join may be large, so it is not checked. Nothing is started, so this check can come first.
    """
    if _to_join(address) is None and workers is not None:
        check_room_here(workers)


def start_ray(start: RayStart) -> str:
    """Connect this process to Ray; return a sentence about it.

    A Ray that is started here ends with this process, even if this process is killed. Raises `ClusterError` if no
    cluster answers or it rejects this user, or if this machine has no room for the workers.

    A Ray that this process has joined before is used as it is.
    """
    if ray.is_initialized():
        return _use_joined_ray(start)
    check_workers(start.workers, start.address)
    check_folders(filter(None, [Path.cwd(), start.working_dir]))
    for name, value in RAY_SETTINGS.items():
        os.environ.setdefault(name, value)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    if start.working_dir is not None:
        quiet["runtime_env"] = {"working_dir": str(start.working_dir), "excludes": NOT_SHIPPED}
    address = _to_join(start.address)
    bypass_proxies(_local_addresses())
    if address is not None:
        return _join(address, quiet)
    ensure_private_token()
    cores = os.cpu_count() or 1
    # Worker processes share this machine's cores: Ray gets a slot for each, and the true count as another resource.
    slots = max(cores, (start.workers or WORKERS_OF_A_SINGLE_NODE) + 2)
    with _without_rays_handlers(), ctrl_c_is_ignored(), guard_of_this_process().marks(), _on_loopback():
        context: Any = local_ray(
            num_cpus=slots,
            resources={CORES_RESOURCE: float(cores)},
            include_dashboard=start.dashboard,
            **quiet,
        )
    board = f" Dashboard: http://{context.dashboard_url}" if context.dashboard_url else ""
    return f"Started a local Ray on {cores} cores, which listens on {LOOPBACK} only.{board}"


def _use_joined_ray(start: RayStart) -> str:
    """Return a sentence on the Ray that this process has joined. Raises `ClusterError` if `start` needs another."""
    for name, value in (("--address", start.address), ("--working-dir", start.working_dir)):
        if value is not None:
            raise ClusterError(
                f"This program has called ray.init, which decides about the cluster and its working directory; leave "
                f"{name} out, or call ray.shutdown first."
            )
    return f"Uses the Ray cluster that this program has joined at {ray.get_runtime_context().gcs_address}."


def _local_addresses() -> Iterator[str]:
    """Yield the address of this machine, lazily, because Ray warns if no network leads outside; it is needed only for
    proxies.
    """
    yield ray.util.get_node_ip_address()


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Let a Ray that starts in the block listen on 127.0.0.1 only, as Ray does on platforms where it makes no clusters.

    Otherwise `ray.init` turns even a stated 127.0.0.1 into the address of an interface, and all of Ray's processes
    listen on every interface.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _without_rays_handlers() -> Iterator[None]:
    """Keep this process's handlers of SIGTERM and SIGHUP, if it has one; Ray would install its own when it starts.

    Ray's handler ends the process in the middle, and the command could not print how to resume.
    """
    if not callable(signal.getsignal(signal.SIGTERM)):
        yield
        return
    before = ray_utils.set_sigterm_handler
    ray_utils.set_sigterm_handler = lambda _handler: None
    try:
        with handlers_stay():
            yield
    finally:
        ray_utils.set_sigterm_handler = before


def _to_join(address: str | None) -> str | None:
    """Return the address of the cluster to join, from the option or the environment; None to start a local Ray.

    Raises `ClusterError` for an IPv6 address.
    """
    given_by, address = ("--address", address) if address else ("RAY_ADDRESS", os.environ.get("RAY_ADDRESS"))
    if not address or address == "local":
        return None
    check_ipv4_to_join(address, given_by)
    return address


def _join(address: str, quiet: dict[str, Any]) -> str:
    """Join the cluster at `address`; return a sentence. The head is contacted first, because Ray would retry for
    minutes.

    Raises `ClusterError` if no cluster answers there, if it rejects this user, or if it has other versions.
    """
    try:
        head = _head_of(address)
        host, _, port = head.rpartition(":")
        host = host.strip("[]")
        socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
        bypass_proxies([host])
        with _without_rays_handlers(), agree_on_token(head) as remark:
            context: Any = ray.init(address=head, **quiet)
    except (OSError, OverflowError, ValueError) as error:
        raise ClusterError(
            f"No Ray cluster answers at {address!r} ({reason_of(error)}); check --address and RAY_ADDRESS, or run "
            "`ray start --head` there."
        ) from None
    except RuntimeError as error:
        if (mismatch := version_mismatch(error, address)) is None:
            raise
        raise mismatch from None
    return f"Joined the Ray cluster at {context.address_info['address']}{remark}."


def _head_of(address: str) -> str:
    """Return HOST:PORT of the head at `address`, which may be `auto` for a cluster that runs on this machine.

    Raises `ClusterError` for an address of Ray Client, `ConnectionError` if no cluster runs here, else `ValueError`.
    """
    if "://" in address:
        raise ClusterError(
            f"autosync joins a Ray cluster at its head, HOST:PORT (6379 by default), not through {address!r}; give the "
            "head's address, on a machine that all nodes can reach."
        )
    from ray._private.services import canonicalize_bootstrap_address

    head = canonicalize_bootstrap_address(address)
    if head is None:
        raise ConnectionError("no Ray cluster was found on this machine")
    return head


def cpus_per_worker(cluster: ClusterSpec) -> float:
    """Return the CPUs to request from Ray for each worker: one, or an even share of a node with fewer CPUs than
    workers.
    """
    nodes = ray.nodes()
    free = {str(node["NodeManagerAddress"]): node["Resources"].get("CPU", 1.0) for node in nodes if node["Alive"]}
    shares = [free.get(node.address, 1.0) / (node.workers + 1) for node in cluster.nodes]
    return min(1.0, int(min(shares) * 100) / 100) or 0.01


LOOK_SECONDS, PATIENCE_SECONDS = 3.0, 20.0

ENDING_SECONDS = 6.0
"""Patience with a silent head in a process that was asked to end; in that time the process prints how to resume."""


def answers(address: str, timeout_seconds: float = LOOK_SECONDS) -> bool:
    """True if a server listens at `address`, such as 10.0.0.1:6379."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_seconds).close()
    except OSError:
        return False
    return True


def watch_head(
    address: str,
    when_lost: Callable[[], None],
    patience_seconds: float = PATIENCE_SECONDS,
    look_seconds: float = LOOK_SECONDS,
) -> Callable[[], None]:
    """Call `when_lost` in a thread once the head at `address` has not answered for `patience_seconds`.

    A process that was asked to end waits for a shorter time, because the sender may have ended Ray as well, as
    `timeout` does. Returns a function that ends the watch.
    """
    over = threading.Event()

    def watch() -> None:
        answered = time.monotonic()
        while not over.wait(look_seconds):
            if answers(address, look_seconds):
                answered = time.monotonic()
            elif time.monotonic() - answered >= (
                min(ENDING_SECONDS, patience_seconds) if end_signal() else patience_seconds
            ):
                when_lost()
                return

    threading.Thread(target=watch, name="head-watch", daemon=True).start()
    return over.set
