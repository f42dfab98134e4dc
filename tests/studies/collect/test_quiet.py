"""Waiting for a quiet machine."""

from __future__ import annotations

import os
import time
from multiprocessing import get_context

import pytest

from studies.collect.block import BUSY_CORES, busy_cores, wait_until_quiet


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.thorough
def test_a_process_that_computes_is_seen() -> None:
    spinning = get_context("spawn").Process(target=_spin, args=(3.0,))
    spinning.start()
    try:
        seen = max(busy_cores(0.5) for _ in range(6))
    finally:
        spinning.join()
    assert BUSY_CORES < seen <= (os.cpu_count() or 1)


def test_a_trial_waits_until_other_work_has_ended() -> None:
    loads, pauses = [1.9, 1.2, BUSY_CORES, 1.9], list[float]()
    wait_until_quiet(60.0, lambda: loads.pop(0), pauses.append, lambda: 0.0)
    assert (loads, len(pauses)) == ([1.9], 2)


def test_on_a_machine_that_is_never_quiet_a_trial_begins_all_the_same() -> None:
    now = [0.0]
    wait_until_quiet(60.0, lambda: 2.0, lambda seconds: now.__setitem__(0, now[0] + seconds), lambda: now[0])
    assert 60.0 <= now[0] < 70.0


def test_who_will_not_wait_is_not_asked_to() -> None:
    wait_until_quiet(0.0, lambda: pytest.fail("the load was measured"), clock=lambda: 0.0)
