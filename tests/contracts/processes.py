"""The processes of a back end on Ray: who lives, what is left, and one that dies at the wrong moment."""

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
"""Seconds that the operating system may take to end killed processes."""


def is_alive(pid: int) -> bool:
    """Whether the process runs or is stopped; what is dead and only waits to be reaped does not count."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def left_of(pids: set[int]) -> set[int]:
    """The `pids` that are alive after they had time to end."""
    deadline = time.monotonic() + GONE_WITHIN_SECONDS
    while (left := set(filter(is_alive, pids))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def children() -> set[str]:
    """Process ids of this process' children."""
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


def places_held() -> set[str]:
    """Placement groups that hold resources."""
    return {key for key, group in placement_group_table().items() if group["state"] != "REMOVED"}


def kill_once_it_lives(actor: str) -> None:
    """End a process of a set that is starting, as soon as it has loaded TensorFlow; others may still be at it."""
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
    """The record of a trial in whose midst process `role` got a signal after `first`, and the pids of its set."""
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
            os.kill(pids["client"], signal.SIGKILL)  # or the pool would wait for the trial for good
            raise
