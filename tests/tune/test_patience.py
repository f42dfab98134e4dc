"""Early stopping, once another trial is no longer worth its time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import pytest

from autosync.search.protocol import Proposal
from autosync.spec import RuntimeRecord
from autosync.tune.patience import PATIENCE, Patience, trials_since_better
from tests.tune.records import found, record

STRATEGIES = found(12)


def timed(*seconds: float) -> list[RuntimeRecord]:
    """Records of a baseline and of candidates with these step seconds, and 2 s a trial."""
    first, *others = seconds
    records = [record(strategy, [time], total_seconds=2.0) for strategy, time in zip(STRATEGIES, others, strict=False)]
    return [record("parameter_server", [first], total_seconds=2.0), *records]


@final
@dataclass
class Prophet:
    """A searcher that predicts a gain; no other method is called."""

    gain: float | None

    def expected_gain(self) -> float | None:
        return self.gain

    def ask(self, count: int) -> list[Proposal]:
        raise NotImplementedError

    tell = pending = state = restore = ask


def why(records: list[RuntimeRecord], gain: float | None, patience: Patience) -> str | None:
    return patience.why_end(records, Prophet(gain))  # type: ignore[arg-type]


def test_trials_are_counted_since_the_first_strategy_that_is_about_as_fast_as_the_best() -> None:
    assert trials_since_better(timed(0.5, 0.4, 0.45, 0.6)) == 2
    assert trials_since_better(timed(0.5, 0.4, 0.399, 0.6)) == 2, "0.25 % is not better"
    assert trials_since_better(timed(0.5, 0.4, 0.39, 0.6)) == 1
    assert trials_since_better([]) == 0
    assert trials_since_better([record("byteps", outcome="failed")] * 3) == 3


def test_a_lucky_first_timing_counts_until_it_is_timed_again() -> None:
    records = timed(0.5, 0.4, 0.45, 0.3)
    assert trials_since_better(records) == 0
    again = replace(records[-1], purpose="remeasure", step_seconds=(0.6,), started_at=9.0)
    assert trials_since_better([*records, again]) == 3


def test_a_search_ends_when_a_trial_costs_more_than_it_is_expected_to_save() -> None:
    records = timed(0.4, *[0.5] * 5)
    # 0.1 % of 0.4 s in each of 1000 steps are 0.4 s; a trial takes 2 s.
    assert why(records, 0.001, Patience(5, 1000)) == (
        "The last 5 trials found no strategy that is 1% faster. Another trial takes 2 s and is expected to save 0.4 s "
        "in 1000 training steps."
    )
    assert why(records, 0.001, Patience(6, 1000)) is None, "patience"
    assert why(records, 0.001, Patience(5, 10_000)) is None, "4 s to save"
    assert why(records, None, Patience(5, 1000)) is None, "nothing is expected yet"


def test_a_search_without_a_complete_trial_goes_on() -> None:
    assert why([record("byteps", outcome="failed")] * 60, 0.0, Patience(5, 1)) is None


@pytest.mark.parametrize("trials", [9, PATIENCE])
def test_no_search_ends_early_before_its_patience(trials: int) -> None:
    assert why(timed(0.4, *[0.5] * 9)[:trials], 0.0, Patience()) is None
