"""Waiting until other work on the machine has ended: what runs beside a trial shows in its times."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

__all__ = ["busy_cores", "wait_until_quiet"]

BUSY_CORES = 0.3
"""The most cores that are busy on a quiet machine: between two trials the workers wait, and Ray takes 0.05 to 0.15."""

SAMPLE_SECONDS = 0.5
PAUSE_SECONDS = 1.0


def busy_cores(seconds: float = SAMPLE_SECONDS) -> float:
    """Cores of the whole machine that were not idle over the next `seconds`; what a hypervisor took counts as busy."""
    return float(psutil.cpu_percent(interval=seconds)) / 100 * (psutil.cpu_count() or 1)


def wait_until_quiet(
    longest_seconds: float,
    busy: Callable[[], float] = busy_cores,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return when at most `BUSY_CORES` are busy, or after `longest_seconds`; with 0, return at once."""
    deadline = clock() + longest_seconds
    while clock() < deadline and busy() > BUSY_CORES:
        sleep(PAUSE_SECONDS)
