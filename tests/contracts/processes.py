"""The processes of a back end on Ray: which are alive, which resources are left, and one that dies during a trial."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import ray
from ray.util import placement_group_table

from autosync.spec import RuntimeRecord
from trials.fleet.on_ray import RayBackend
from trials.trial import TrialRequest

__all__ = ["children", "interrupted", "is_alive", "kill_once_it_lives", "left_of", "places_held"]

GONE_WITHIN_SECONDS = 20.0
"""Seconds in which the operating system must end killed processes."""


def is_alive(pid: int) -> bool:
    """Whether the process runs or is stopped; False for a dead process that only waits to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def left_of(pids: set[int]) -> set[int]:
    """Return the `pids` that are still alive after they had time to end."""
    deadline = time.monotonic() + GONE_WITHIN_SECONDS
    while (left := set(filter(is_alive, pids))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def children() -> set[str]:
    """Return the process ids of this process's children."""
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


def places_held() -> set[str]:
    """Return the placement groups that hold resources."""
    return {key for key, group in placement_group_table().items() if group["state"] != "REMOVED"}


def kill_once_it_lives(actor: str) -> None:
    """End a process of a starting set as soon as it has loaded TensorFlow; other processes may still be loading."""
    while True:
        with suppress(ValueError):  # Ray knows no such actor yet
            os.kill(ray.get(ray.get_actor(actor).pid.remote()), signal.SIGKILL)
            return
        time.sleep(0.05)


def interrupted(
    backend: RayBackend,
    role: str,
    number: signal.Signals,
    request: TrialRequest,
    first: Callable[[], None] = lambda: None,
) -> tuple[RuntimeRecord, set[int]]:
    """Run a trial, and signal process `role` after `first`; return the trial's record and the pids of its set."""
    pids = backend.pids()
    with ThreadPoolExecutor(1) as pool:
        record: Future[RuntimeRecord] = pool.submit(backend.run, request)
        time.sleep(1.0)
        assert not record.done(), "The trial should still run."
        first()
        os.kill(pids[role], number)
        try:
            return record.result(timeout=120), set(pids.values())
        except TimeoutError:
            os.kill(pids["client"], signal.SIGKILL)  # otherwise the pool would wait for the trial forever
            raise
