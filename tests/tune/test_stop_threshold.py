"""The threshold with which a running trial is compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.spec import RuntimeRecord
from autosync.tune.stop_threshold import best_now, best_when
from tests.tune.records import found, record

FAST, SLOW, OTHER = found(3)


def timed(strategy: object, seconds: float) -> RuntimeRecord:
    return record(strategy, [seconds])  # type: ignore[arg-type]


def test_it_is_the_least_median_of_this_process() -> None:
    assert best_now([], [timed(SLOW, 0.4), timed(FAST, 0.2)]) == 0.2
    again = replace(timed(FAST, 0.6), started_at=1.0)
    assert best_now([], [timed(SLOW, 0.45), timed(FAST, 0.2), again]) == 0.4, "0.2 s once and 0.6 s once"
    assert best_now([], []) is None


def test_what_another_process_timed_does_not_count_by_itself() -> None:
    assert best_now([timed(FAST, 0.1)], []) is None
    assert best_now([timed(FAST, 0.1)], [timed(SLOW, 0.4)]) == 0.4


def test_it_counts_by_how_much_the_machine_has_changed_once_a_strategy_was_timed_in_both() -> None:
    earlier = [timed(FAST, 0.1), timed(SLOW, 0.2)]
    assert best_now(earlier, [timed(SLOW, 0.3)]) == pytest.approx(0.15)
    assert best_now(earlier, [timed(SLOW, 0.3), timed(OTHER, 0.12)]) == 0.12


def test_it_is_said_which_trials_it_is_the_best_of() -> None:
    assert best_when([], [timed(SLOW, 0.4)]) == "so far"
    assert (
        best_when([replace(timed(FAST, 0.1), outcome="failed", reason="It was broken.")], [timed(SLOW, 0.4)])
        == "so far"
    )
    assert best_when([timed(FAST, 0.1)], [timed(SLOW, 0.4)]) == "since the search was resumed"
    assert (
        best_when([timed(FAST, 0.1)], [timed(SLOW, 0.4), timed(FAST, 0.3)]) == "so far at the machine's present speed"
    )
