"""The clock of stale-synchronous training, with threads that only sleep now and then."""

from __future__ import annotations

import random
import threading
import time

import pytest

from autosync.engine.core.barrier import StaleClock

WORKERS, STEPS = 4, 60


def _run(staleness: int, seconds_of) -> tuple[StaleClock, list[int]]:
    clock = StaleClock(WORKERS, staleness)
    applied: list[int] = []

    def work(worker: int) -> None:
        rng = random.Random(worker)
        while clock.begin(worker) is not None:
            time.sleep(seconds_of(worker, rng))
            clock.finish(worker, applied.append)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for thread in threads:
        thread.start()
    for _ in range(STEPS):
        clock.ask()
    clock.wait(behind=0)
    clock.close()
    for thread in threads:
        thread.join(timeout=10)
    return clock, applied


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_no_worker_is_ever_more_steps_ahead_than_allowed(staleness):
    clock, applied = _run(staleness, lambda _, rng: rng.random() * 2e-3)
    assert applied == list(range(STEPS))
    assert sum(clock.lags.values()) == WORKERS * STEPS
    assert max(clock.lags) <= staleness


def test_fast_workers_use_the_full_staleness_beside_a_slow_one():
    clock, _ = _run(3, lambda worker, _: 3e-3 if worker == 0 else 0.0)
    assert max(clock.lags) == 3
    assert clock.lags[3] > STEPS  # three fast workers, nearly always waiting for the slow one


def test_a_failed_worker_ends_the_wait_of_all():
    clock = StaleClock(2, 1)
    clock.ask()
    assert clock.begin(0) == 0
    clock.fail(RuntimeError("gone"))
    assert clock.begin(1) is None
    with pytest.raises(RuntimeError, match="gone"):
        clock.wait(behind=0)


def test_no_worker_begins_a_step_that_was_not_asked_for():
    clock = StaleClock(1, 5)
    clock.ask()
    assert clock.begin(0) == 0
    clock.close()
    assert clock.begin(0) is None
