"""The record noun and the timing protocol."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from autosync.errors import SpecError
from autosync.spec import (
    AllReduce,
    RuntimeRecord,
    Strategy,
    TimingProtocol,
    VariableStrategy,
    canonical_json,
    parse_json,
)
from tests import cases


def record(**changes: Any) -> RuntimeRecord:
    model = cases.scalar_model()
    strategy = Strategy(
        ("node0/cpu:0", "node0/cpu:1"),
        tuple(VariableStrategy(variable.name, (AllReduce(0),)) for variable in model.variables),
    )
    fields: dict[str, Any] = {
        "model": model,
        "cluster": cases.local_cluster(2),
        "strategy": strategy,
        "protocol": TimingProtocol(warmup_steps=1, timed_steps=3),
        "outcome": "ok",
        "purpose": "search",
        "label": "evolution",
        "run": "run-1",
        "seed": 7,
        "started_at": 1.7e9,
        "setup_seconds": 1.5,
        "total_seconds": 2.5,
        "step_seconds": (0.1, 0.3, 0.2),
        "final_loss": 0.5,
        "predicted_seconds": 0.15,
        "host": "machine",
        "versions": {"tensorflow": "2.21"},
    }
    return RuntimeRecord(**(fields | changes))


@pytest.mark.parametrize(
    "original",
    [
        record(),
        record(outcome="failed", reason="NaN loss", step_seconds=(), final_loss=None, predicted_seconds=None),
        record(outcome="stopped", reason="twice as slow as the best"),
        record(sequence=12, load_average=1.5),
    ],
    ids=["ok", "failed", "stopped", "collected"],
)
def test_a_record_comes_back_from_json_as_it_was(original: RuntimeRecord):
    assert RuntimeRecord.from_json(parse_json(canonical_json(original.to_json()), "The record")) == original


def test_a_record_of_no_collection_says_nothing_of_one_so_that_its_identity_is_that_of_before():
    assert record().to_json().keys().isdisjoint({"sequence", "load_average"})


def test_a_record_knows_the_median_and_mean_of_its_steps():
    assert record().median_seconds == 0.2
    assert math.isclose(record().mean_seconds or 0.0, 0.2)


def test_only_records_with_steps_to_learn_from_are_timed():
    assert record().timed
    assert record(outcome="stopped", reason="slow").timed
    for outcome in ("failed", "timed_out", "lost"):
        failure = record(outcome=outcome, reason="why")
        assert not failure.timed
        assert failure.median_seconds is None
        assert failure.mean_seconds is None
    assert not record(outcome="stopped", reason="slow", step_seconds=()).timed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outcome": "great"}, "A record's outcome is one of ok, stopped, failed, timed_out, lost, not 'great'."),
        ({"purpose": "fun"}, "A record's purpose is one of baseline, search, remeasure, manual, not 'fun'."),
        ({"reason": "why"}, "Exactly the records that are not ok state a reason; outcome 'ok', 'why'."),
        ({"outcome": "failed"}, "Exactly the records that are not ok state a reason; outcome 'failed', ''."),
        ({"step_seconds": ()}, "A record that is ok holds its step seconds; none were given."),
        ({"step_seconds": (0.1, 0.0)}, "Step seconds are positive and finite."),
        ({"step_seconds": (0.1, math.nan)}, "Step seconds are positive and finite."),
    ],
)
def test_a_record_that_breaks_a_rule_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(SpecError, match=re.escape(message)):
        record(**changes)


STEPS = "A trial has 0 or more warm-up steps and 1 or more timed steps, and checks after 1 or more."
PATIENCE = "A trial's time limit must be positive and finite, and its stop factor over 1 and finite."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warmup_steps": -1}, STEPS),
        ({"timed_steps": 0}, STEPS),
        ({"check_after": 0}, STEPS),
        ({"time_limit_seconds": 0.0}, PATIENCE),
        ({"time_limit_seconds": math.inf}, PATIENCE),
        ({"stop_factor": 1.0}, PATIENCE),
        ({"stop_factor": math.inf}, PATIENCE),
        ({"stop_factor": math.nan}, PATIENCE),
    ],
)
def test_a_protocol_that_breaks_a_rule_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(SpecError, match=re.escape(message)):
        replace(TimingProtocol(), **changes)


def test_a_protocol_comes_back_from_json_and_fills_in_what_is_missing():
    protocol = TimingProtocol(3, 5, 10.0, 1.5, 2)
    assert TimingProtocol.from_json(protocol.to_json()) == protocol
    assert TimingProtocol.from_json({"timed_steps": 5}) == TimingProtocol(timed_steps=5)
    with pytest.raises(SpecError, match="A timing protocol has the unknown field 'steps'"):
        TimingProtocol.from_json({"steps": 5})


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"timed_steps": 2.5}, "A timing protocol: 'timed_steps' must be int, not 2.5."),
        ({"warmup_steps": "x"}, "A timing protocol: 'warmup_steps' must be int, not 'x'."),
        ({"check_after": True}, "A timing protocol: 'check_after' must be int, not True."),
        ({"stop_factor": None}, "A timing protocol: 'stop_factor' must be float, not None."),
    ],
)
def test_a_protocol_of_other_kinds_of_values_is_refused_in_a_sentence(document: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=re.escape(told)):
        TimingProtocol.from_json(document)


def test_an_integer_in_a_protocol_stays_one_so_that_a_record_keeps_its_identity() -> None:
    document = {**TimingProtocol().to_json(), "time_limit_seconds": 300}
    assert canonical_json(TimingProtocol.from_json(document).to_json()) == canonical_json(document)
    assert '"time_limit_seconds":300,' in canonical_json(document)


def test_repeated_timings_of_a_search_belong_to_it_and_those_of_finals_do_not() -> None:
    assert record(purpose="baseline").of_search
    assert record(purpose="search").of_search
    assert record(purpose="remeasure", sequence=4).of_search
    assert not record(purpose="remeasure").of_search
