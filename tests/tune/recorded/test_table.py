"""The recorded table: its clock, its repeats, and the fields of its records."""

from __future__ import annotations

import pytest

from autosync.search.protocol import Proposal
from autosync.spec import Strategy
from autosync.tune.recorded.table import RecordedTable
from tests.tune.recorded.examples import REPEATED, cell

CELL = cell()
REPEATS = [strategy for strategy, trials in CELL.trials.items() if len(trials) > 1]


def medians(strategy: Strategy) -> set[float | None]:
    return {trial.median_seconds for trial in CELL.trials[strategy]}


def test_the_clock_goes_on_by_the_length_of_each_trial() -> None:
    table, ended = RecordedTable(CELL, 0), 0.0
    for strategy, trials in CELL.trials.items():
        record = table(Proposal(strategy, "mine"))
        assert record.started_at == ended
        ended += record.total_seconds
        assert table.clock_seconds == pytest.approx(ended)
        assert record.total_seconds in {trial.total_seconds for trial in trials}


def test_a_record_is_a_trial_that_was_run_with_the_proposal_s_own_words() -> None:
    (label, strategy), *_ = CELL.baselines
    record = RecordedTable(CELL, 7)(Proposal(strategy, "mine", 0.125, "search"))
    said = (record.label, record.purpose, record.predicted_seconds, record.seed, record.run)
    assert said == ("mine", "search", 0.125, 7, "replay")
    assert record.step_seconds in {trial.step_seconds for trial in CELL.trials[strategy]}
    assert CELL.trials[strategy][0].label == label


def test_seeds_draw_which_repeat_is_met_and_one_seed_always_the_same() -> None:
    assert len(REPEATS) == REPEATED
    for strategy in REPEATS:
        met = {RecordedTable(CELL, seed)(Proposal(strategy, "")).median_seconds for seed in range(20)}
        assert met == medians(strategy)
        assert len(met) == 2
        first, second = (RecordedTable(CELL, 3)(Proposal(strategy, "")) for _ in range(2))
        assert first == second


def test_timed_again_a_strategy_gives_its_other_trial() -> None:
    table = RecordedTable(CELL, 0)
    again = [table(Proposal(REPEATS[0], "")).median_seconds for _ in range(4)]
    assert set(again[:2]) == medians(REPEATS[0])
    assert again[2:] == again[:2]


def test_a_strategy_is_open_until_it_was_timed() -> None:
    table, strategy = RecordedTable(CELL, 0), next(iter(CELL.trials))
    assert table.is_open(strategy)
    table(Proposal(strategy, ""))
    assert not table.is_open(strategy)


def test_a_failed_trial_fails_again() -> None:
    (failed,) = (strategy for strategy, trials in CELL.trials.items() if trials[0].outcome == "failed")
    assert RecordedTable(CELL, 0)(Proposal(failed, "")).outcome == "failed"
    assert CELL.seconds[failed] == float("inf")
