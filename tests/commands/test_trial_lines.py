"""A record in words."""

from __future__ import annotations

from dataclasses import replace

from autosync.commands.trial import record_lines
from tests.trials.scripted import Script, play, request


def test_a_record_is_told_with_its_median_spread_and_interval() -> None:
    record = replace(play(Script([0.5] * 9), request()), step_seconds=(0.010, 0.012, 0.011, 0.030, 0.013, 0.012))
    lines = list(record_lines(record))
    assert lines[0] == f"Strategy {record.strategy.digest}: ok"
    assert "Steps: 6 of 6 timed, after 2 for warm-up" in lines
    assert "Median: 12.00 ms, 95 % interval 10.00 ms to 30.00 ms (order statistics)" in lines
    assert "Mean: 14.67 ms, standard deviation 7.58 ms, from 10.00 ms to 30.00 ms" in lines
    assert lines[-1] == "Last loss: 0.5"


def test_a_failed_record_is_told_with_its_reason() -> None:
    lines = list(record_lines(play(Script([RuntimeError("Socket closed")]), request())))
    assert lines[1] == "Reason: RuntimeError: Socket closed"
    assert not any(line.startswith(("Median", "Steps", "Last loss")) for line in lines)


def test_steps_of_a_trial_that_ended_early_are_told_as_well() -> None:
    lines = list(record_lines(play(Script([1.0, 1.0, 1.0, 1.0, float("nan")]), request())))
    assert "Steps: 1 of 6 timed, after 2 for warm-up" in lines
    assert any(line.startswith("Median: ") for line in lines)
