"""One trial: timed steps, discarded steps, and the ends of a trial."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autosync.errors import SpecError
from autosync.spec import Discipline, Rhythm, TimingProtocol
from tests.trials.scripted import Script, SlowClock, SteppingClock, Timeline, play, request
from trials.clock import FakeClock


def good(steps: int = 9) -> Script:
    return Script([1.0 / (index + 1) for index in range(steps)])


def test_the_building_step_and_the_warm_up_are_thrown_away_and_all_timed_steps_kept() -> None:
    script = good()
    record = play(script, request())
    assert (record.outcome, record.reason) == ("ok", "")
    assert script.steps == 1 + 2 + 6
    assert len(record.step_seconds) == 6
    assert record.setup_seconds > 0
    assert record.total_seconds > record.setup_seconds + sum(record.step_seconds)
    assert record.final_loss == pytest.approx(1 / 9)


def test_a_step_is_timed_from_just_before_it_to_just_after_it() -> None:
    """`SlowClock`'s reading n is 2**n - 1: one before the trial, one after the setup, two a step (one in warm-up)."""
    protocol = TimingProtocol(warmup_steps=1, timed_steps=2, time_limit_seconds=1e9)
    record = play(good(), request(protocol=protocol), SlowClock())
    assert record.setup_seconds == 2.0**2 - 2.0**1
    assert record.step_seconds == (2.0**5 - 2.0**4, 2.0**7 - 2.0**6)
    assert record.total_seconds == 2.0**8 - 2.0**1


def test_a_record_says_what_was_asked_for() -> None:
    wanted = request(
        purpose="search", label="guided", run="run-1", seed=7, predicted_seconds=0.25, best_median_seconds=100.0
    )
    record = play(good(), wanted)
    assert (record.strategy, record.protocol) == (wanted.strategy, wanted.protocol)
    assert (record.purpose, record.label, record.run, record.seed) == ("search", "guided", "run-1", 7)
    assert record.predicted_seconds == 0.25


@pytest.mark.parametrize(
    ("number", "kept", "last"), [(0, 0, None), (2, 0, 1.0), (5, 2, 1.0)], ids=["building", "warm-up", "timed"]
)
@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_fails_the_trial_at_its_step(
    loss: float, number: int, kept: int, last: float | None
) -> None:
    losses = [1.0] * 9
    losses[number] = loss
    script = Script(losses)
    record = play(script, request())
    assert record.outcome == "failed"
    assert record.reason == f"The loss is {loss} at step {number}; a trial must keep its loss finite."
    assert script.steps == number + 1
    assert len(record.step_seconds) == kept
    assert record.final_loss == last
    assert not record.timed


def test_a_step_that_raises_fails_the_trial_and_keeps_the_steps_before() -> None:
    record = play(Script([*[1.0] * 5, RuntimeError("Socket closed\nfrom peer")]), request())
    assert (record.outcome, record.reason) == ("failed", "RuntimeError: Socket closed")
    assert len(record.step_seconds) == 2
    assert record.total_seconds > 0


def test_a_strategy_that_cannot_be_built_fails_the_trial() -> None:
    record = play(Script([], refusal=SpecError("It cannot be.")), request())
    assert (record.outcome, record.reason) == ("failed", "SpecError: It cannot be.")
    assert (record.setup_seconds, record.step_seconds) == (0.0, ())


def test_a_strategy_that_does_not_fit_fails_with_its_first_fault_and_is_never_built() -> None:
    script = good()
    record = play(script, request(workers=4))
    assert record.outcome == "failed"
    assert record.reason.startswith("Replica 'node0/cpu:2' is not in the cluster.")
    assert script.steps == 0


def test_a_strategy_with_a_discipline_is_never_timed() -> None:
    wanted, script = request(), good()
    local = replace(wanted, strategy=replace(wanted.strategy, discipline=Discipline(Rhythm(8))))
    record = play(script, local)
    assert record.outcome == "failed"
    assert record.reason.startswith("Step times cannot rank a strategy with a discipline")
    assert script.steps == 0


def test_only_what_is_a_trials_own_fault_becomes_a_record() -> None:
    class Stopped(BaseException):
        pass

    class Interrupting:
        def realize(self, strategy: object) -> object:  # noqa: ARG002
            raise Stopped

    with pytest.raises(Stopped):
        play(Interrupting(), request())  # type: ignore[arg-type]


def test_a_trial_over_its_time_limit_is_timed_out_with_the_steps_it_has() -> None:
    """`SlowClock` starts step 4, the second timed one, at reading 6 = 63 s."""
    protocol = TimingProtocol(warmup_steps=2, timed_steps=6, time_limit_seconds=60.0)
    script = good()
    record = play(script, request(protocol=protocol), SlowClock())
    assert record.outcome == "timed_out"
    assert record.reason == "The trial's 60 s were over after 3 of 8 steps."
    assert len(record.step_seconds) == 1
    assert script.steps == 1 + 3
    assert script.closed == 1
    assert record.median_seconds is None


def test_a_trial_slower_than_the_best_is_stopped_with_the_steps_it_has() -> None:
    protocol = TimingProtocol(warmup_steps=2, timed_steps=6, stop_factor=2.0, check_after=3)
    script = Timeline([0.3125] * 9)
    record = play(script, request(protocol=protocol, best_median_seconds=0.125), script)
    assert record.outcome == "stopped"
    assert record.reason == "After 3 timed steps the median of 312.5 ms is surely over 2 x the best so far, 125.0 ms."
    assert script.steps == 1 + 2 + 3


@pytest.mark.parametrize("purpose", ["baseline", "search"])
def test_a_clearly_slow_strategy_costs_one_warm_up_step_and_three_more(purpose: str) -> None:
    """2.5 s a step where the best takes 0.9: with 10 warm-up steps and 5 timed ones it would cost 40 s."""
    protocol, script = TimingProtocol(warmup_steps=10, timed_steps=40, stop_factor=1.25), Timeline([5.0, *[2.5] * 50])
    asked = request(protocol=protocol, best_median_seconds=0.9, purpose=purpose)
    record = play(script, asked, script)
    assert (record.outcome, record.step_seconds) == ("stopped", (2.5, 2.5, 2.5))
    assert "After 3 timed steps the median of 2500.0 ms is surely over 1.25 x the best" in record.reason
    assert script.steps == 1 + 1 + 3


def test_a_strategy_that_warms_up_slowly_is_not_stopped() -> None:
    protocol = TimingProtocol(warmup_steps=10, timed_steps=40, stop_factor=1.25)
    asked = request(protocol=protocol, best_median_seconds=0.9)
    script = Timeline([5.0, 3.0, 2.5, 2.5, *[1.0] * 47])
    record = play(script, asked, script)
    assert (record.outcome, record.step_seconds) == ("ok", (1.0,) * 40)


def test_a_trial_much_slower_than_the_best_is_stopped_with_the_steps_it_has() -> None:
    protocol = TimingProtocol(warmup_steps=2, timed_steps=6, stop_factor=2.0, check_after=3)
    script = good()
    record = play(script, request(protocol=protocol, best_median_seconds=1e-4))
    median = record.median_seconds
    assert median is not None
    assert record.outcome == "stopped"
    assert record.reason == (
        f"After 3 timed steps the median of {median * 1e3:.1f} ms is surely over 2 x the best so far, 0.1 ms."
    )
    assert len(record.step_seconds) == 3
    assert script.steps == 1 + 1 + 3


def test_a_baseline_is_stopped_beside_baselines_and_says_so() -> None:
    protocol = TimingProtocol(warmup_steps=2, timed_steps=6, stop_factor=2.0, check_after=3)
    record = play(good(), request(protocol=protocol, best_median_seconds=1e-4, purpose="baseline"))
    assert record.reason.endswith(" ms is surely over 2 x the best baseline so far, 0.1 ms.")


def test_a_trial_that_is_stopped_says_which_trials_it_was_compared_with_the_best_of() -> None:
    protocol = TimingProtocol(warmup_steps=2, timed_steps=6, stop_factor=2.0, check_after=3)
    when = "since the search went on"
    record = play(good(), request(protocol=protocol, best_median_seconds=1e-4, best_when=when, purpose="baseline"))
    assert record.reason.endswith(" surely over 2 x the best baseline since the search went on, 0.1 ms.")


def test_without_a_best_no_trial_is_stopped() -> None:
    assert play(good(), request(protocol=TimingProtocol(2, 6, check_after=1))).outcome == "ok"


def test_a_trial_not_slower_than_the_factor_is_not_stopped() -> None:
    timed = play(good(), request())
    assert timed.median_seconds is not None
    again = play(good(), request(best_median_seconds=timed.median_seconds))
    assert again.outcome == "ok"


def test_a_trial_is_stopped_as_soon_as_its_own_scatter_leaves_no_doubt_and_not_before() -> None:
    protocol = TimingProtocol(warmup_steps=0, timed_steps=40, stop_factor=1.25)

    def steps_taken(*seconds: float) -> int:
        steps = [*seconds, *[0.3] * (40 - len(seconds))]
        record = play(good(41), request(protocol=protocol, best_median_seconds=0.2), SteppingClock(steps))
        return len(record.step_seconds)

    assert steps_taken() == 5
    # With 8 steps, one may well be under the median; with 9, at 95 %, the second least is not.
    assert steps_taken(0.1) == 9
    assert steps_taken(*[0.3, 0.2] * 20) == 40, "the median may be 0.2 s"
    assert steps_taken(*[0.24] * 40) == 40, "under 1.25 x"


def test_a_trial_that_has_all_its_steps_is_never_stopped() -> None:
    protocol = TimingProtocol(warmup_steps=0, timed_steps=3, check_after=3)
    assert play(good(), request(protocol=protocol, best_median_seconds=1e-9)).outcome == "ok"


def test_the_same_strategy_takes_the_same_time_whatever_ran_before_it() -> None:
    clock = FakeClock()
    first = play(good(), request(), clock)
    another = play(good(), request("byteps"), clock)
    again = play(good(), request(), clock)
    assert first.step_seconds == again.step_seconds == play(good(), request()).step_seconds
    assert another.step_seconds != first.step_seconds
    assert replace(again, started_at=0.0) == replace(first, started_at=0.0)
