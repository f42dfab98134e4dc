"""The time budget: the reserve for the finals, the steps of a trial, and finalists that are left out."""

from __future__ import annotations

import math

import pytest

from autosync.spec import RuntimeRecord, TimingProtocol
from autosync.tune.budget import SEARCH_SHARE, Reserve, affordable, fitting, seconds_of_trials, too_few_in_words
from autosync.tune.finalists import seconds_of_turn
from tests.tune.records import found, record

FAST = record("parameter_server", [0.9], total_seconds=14.0)
"""A baseline with 0.9 s a step: 0.25 s of setup and 14 steps. A turn has 3 + 5 steps."""
SLOW = [record(name, [2.5] * 3, "stopped", total_seconds=12.5) for name in ("all_reduce_25mb", "byteps")]


def candidates(count: int, seconds: float = 0.8) -> list[RuntimeRecord]:
    return [record(strategy, [seconds], total_seconds=12.0) for strategy in found(count)]


def test_a_protocol_with_too_few_steps_to_judge_is_called_so() -> None:
    assert list(too_few_in_words(TimingProtocol(warmup_steps=2, timed_steps=5))) == []
    steps, warmup = too_few_in_words(TimingProtocol(warmup_steps=1, timed_steps=4))
    assert steps.startswith("--steps 4 is too small to judge a strategy: ")
    assert steps.endswith("use --steps 5 or more.")
    assert warmup.startswith("--warmup 1 is too small to judge a strategy: ")
    assert warmup.endswith("use --warmup 2 or more.")


def test_a_turn_takes_the_setup_again_and_its_share_of_the_steps() -> None:
    assert seconds_of_turn(FAST) == pytest.approx(0.25 + 13.75 * 8 / 14)
    assert seconds_of_turn(SLOW[0], 0.9) == pytest.approx(0.25 + 4 * 2.5), "one warm-up step and three more"


def test_the_search_gets_its_share_of_the_time_after_the_first_baselines_whatever_finals_take() -> None:
    """Two paced racks with a thin uplink: six rounds of these finals would take the whole budget."""
    baselines, left = [FAST, *SLOW], 200.0
    reserve = Reserve(rounds=6)
    assert reserve.finals_seconds(baselines) > SEARCH_SHARE * left
    records = list(baselines)
    for candidate in candidates(40):
        if reserve.is_out_of_time(0, records, left):
            break
        records.append(candidate)
        left -= candidate.total_seconds
    searched = sum(record.total_seconds for record in records[3:])
    longest = max(record.total_seconds for record in records[3:])
    assert SEARCH_SHARE * 200.0 - longest <= searched <= SEARCH_SHARE * 200.0 + longest
    assert len(records) >= 3 + 7


def test_cheap_finals_leave_the_rest_to_the_search() -> None:
    cheap, reserve = [record("parameter_server", [0.01], total_seconds=0.6)], Reserve(rounds=6)
    finals = reserve.finals_seconds(cheap)
    assert 0.0 < finals < 15.0
    assert not reserve.is_out_of_time(0, cheap, 2 * finals), "less than a half is kept for them"
    assert not reserve.is_out_of_time(0, cheap, 1.3)
    assert reserve.is_out_of_time(0, cheap, 1.1), "half of it has no room for a trial"


def test_without_a_budget_time_is_never_out() -> None:
    assert not Reserve(6).is_out_of_time(1000, [FAST], math.inf)
    assert not Reserve(6).is_out_of_time(5, [], math.inf)


def test_no_trial_begins_that_is_not_expected_to_end() -> None:
    assert Reserve(6).is_out_of_time(0, [FAST, *SLOW], 14.0)
    assert seconds_of_trials(1, [FAST, *SLOW]) == 14.0
    assert seconds_of_trials(3, [FAST, *SLOW]) == pytest.approx(14.0 + 2 * (14.0 + 2 * 12.5) / 3)
    assert seconds_of_trials(4, []) == 0.0
    assert seconds_of_trials(1, [*[record("byteps", [9.0], total_seconds=99.0)], *[FAST] * 10]) == 14.0


def test_counterfactuals_are_kept_room_for() -> None:
    assert Reserve(6, counterfactuals=2).finals_seconds([FAST]) > Reserve(6).finals_seconds([FAST])
    assert Reserve(6, counterfactuals=3).finals_seconds([]) == 0.0


@pytest.mark.parametrize(
    ("step_seconds", "budget_seconds", "steps"),
    [
        (0.9, None, (10, 40)),
        (None, 420.0, (10, 40)),
        (0.1, 420.0, (10, 40)),
        (0.9, 420.0, (2, 9)),
        (2.5, 420.0, (1, 5)),
    ],
)
def test_a_trial_has_no_more_steps_than_its_share_of_the_budget_allows(
    step_seconds: float | None, budget_seconds: float | None, steps: tuple[int, int]
) -> None:
    protocol = affordable(TimingProtocol(), step_seconds, budget_seconds)
    assert (protocol.warmup_steps, protocol.timed_steps) == steps
    assert protocol.check_after <= protocol.timed_steps


def test_steps_that_were_asked_for_are_never_raised() -> None:
    short = TimingProtocol(warmup_steps=0, timed_steps=2)
    assert affordable(short, 10.0, 60.0).timed_steps == 2
    assert affordable(short, 10.0, 60.0).warmup_steps == 0


def test_finalists_are_left_out_for_want_of_time_and_the_best_two_never() -> None:
    searched = candidates(3)
    close = record("all_reduce_per_variable", [0.92], total_seconds=14.0)
    chosen = [*searched, FAST, close, SLOW[0]]
    assert fitting(chosen, 6, math.inf) == chosen
    assert fitting(chosen, 6, 0.0) == [searched[0], FAST]
    turn = seconds_of_turn(FAST)
    kept = [fitting(chosen, 6, rounds * turn) for rounds in range(10, 30)]
    assert [len(finalists) for finalists in kept] == sorted(map(len, kept))
    assert searched[2] not in kept[-2] or kept[-2] == chosen, "the third candidate goes first"
    assert all(SLOW[0] in finalists for finalists in kept if close in finalists), (
        "close baselines go before the default"
    )
