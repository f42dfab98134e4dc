"""Clocks."""

from __future__ import annotations

import itertools
import time

import pytest

from trials.clock import Clock, FakeClock, WallClock


@pytest.mark.parametrize("clock", [WallClock(), FakeClock()], ids=["wall", "fake"])
def test_time_never_goes_back(clock: Clock) -> None:
    clock.start_trial("a")
    readings = [clock.now() for _ in range(20)]
    clock.start_trial("b")
    readings += [clock.now() for _ in range(20)]
    assert readings == sorted(readings)


def test_the_fake_clocks_differences_depend_on_the_digest_alone() -> None:
    def differences(clock: FakeClock, digest: str) -> list[float]:
        clock.start_trial(digest)
        readings = [clock.now() for _ in range(50)]
        return [after - before for before, after in itertools.pairwise(readings)]

    used = FakeClock()
    for number in range(100):
        differences(used, f"other-{number}")
    assert differences(used, "abc") == differences(FakeClock(), "abc")
    assert differences(used, "abc") != differences(used, "abd")


def test_fake_steps_take_half_to_one_and_a_half_times_the_base() -> None:
    clock = FakeClock(base_seconds=2.0)
    for number in range(100):
        clock.start_trial(str(number))
        before = clock.now()
        assert 1.0 <= clock.now() - before <= 3.0 * 1.02


def test_the_wall_clocks_timestamp_counts_from_1970() -> None:
    before = time.time()
    assert before <= WallClock().timestamp() <= time.time()
