"""The contract of cut-offs: late replicas leave no trace, and it makes no difference how they are determined.

No pass is late by chance here: without pacing, late replicas wait for a signal; with pacing, pass lengths are drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.core.control_loop import ControlLoop
from autosync.engine.core.step_state import StepState
from autosync.engine.core.timetable import Timetable
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.decided import DecidedStep
from autosync.engine.tensorflow.step.k_sync import KSyncStep
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.errors import SpecError
from autosync.spec import CutOff, Decision, Discipline, ModelProfile, Pace, Spread, Strategy
from tests.cases import local_cluster
from tests.contracts.compressed_training import LEARNING_RATE, MOMENTUM, Run, backward
from tests.contracts.parity import captured_task, reference, session_on
from tests.contracts.test_pace_contract import paced_like
from tests.contracts.ways import ALONE, COMPRESSED

FOUR = local_cluster(4)
WAYS = (
    "one server",
    "servers, first axis cut",
    "two rings",
    "every algorithm",
    "one collective",
    "shards of both kinds",
)
MASKS = ((0, 1, 3), (1, 2, 3), (2, 3), (0, 1, 2, 3))
EXACT = 1e-7
"""Largest max|a - b| / max|b| of any variable at the end of a run in float64. The weights of replicas are float32."""


class Script:
    """Lets the replicas in a step's mask arrive at once, and all other replicas after a signal."""

    def __init__(self, masks: Sequence[Sequence[int]]) -> None:
        self._masks = masks
        self._over = [threading.Event() for _ in masks]

    def __call__(self, replica: int, step: int) -> None:
        if replica not in self._masks[step]:
            self._over[step].wait()

    def let_go(self, step: int) -> None:
        self._over[step].set()


def strategy_of(session: TensorFlowSession, way: str, waits: CutOff | None) -> Strategy:
    strategy = (ALONE | COMPRESSED)[way](session.model, session.cluster)
    return strategy if waits is None else replace(strategy, discipline=Discipline(waits=waits))


def plain(task: str, optimizer: str, way: str) -> SynchronousStep:
    session = session_on(task, optimizer, FOUR)
    step = session.realize(strategy_of(session, way, None))
    assert isinstance(step, SynchronousStep)
    return step


def found(task: str, optimizer: str, way: str, masks: Sequence[Sequence[int]] = ()) -> KSyncStep:
    """A step that measures which replicas are late; `masks` name the replicas that are in time."""
    session = session_on(task, optimizer, FOUR)
    step = session.realize(strategy_of(session, way, CutOff(3)))
    assert isinstance(step, ControlLoop)
    assert isinstance(step.step, KSyncStep)
    if masks:
        step.step._pause = Script(masks)
    return step.step


def known(task: str, optimizer: str, way: str, waits: CutOff) -> ControlLoop:
    """A step with paced passes of about 4 ms, whose lengths are known in advance."""
    captured = captured_task(task, optimizer)
    ready = {variable.name: 1.0 for variable in captured.spec.variables}
    captured = replace(captured, spec=replace(captured.spec, profile=ModelProfile(0.001, 0.001, ready)))
    cluster = paced_like(FOUR, Pace(1.0, 0.002, "held", Spread(0.5)))
    session = TensorFlowSession(captured, cluster, Placement.in_one_process(cluster))
    step = session.realize(strategy_of(session, way, waits))
    assert isinstance(step, ControlLoop)
    assert isinstance(step.step, DecidedStep)
    return step


def take(step: KSyncStep, number: int, batches: Sequence[Any], count: int) -> tuple[int, ...]:
    """Take a step; return the replicas that counted."""
    report = step.take(number, Decision(first=count), batches)
    if isinstance(step._pause, Script):
        step._pause.let_go(number)
    assert np.isfinite(report.loss)
    return tuple(replica for replica, arrival in enumerate(report.arrivals) if arrival is not None)


def weights_of(mask: Sequence[int]) -> list[float]:
    return [4 / len(mask) if replica in mask else 0.0 for replica in range(4)]


def assert_same(one: Any, other: Any) -> None:
    for replica in range(4):
        expected = other.values(replica)
        for name, value in one.values(replica).items():
            assert value.tobytes() == expected[name].tobytes(), f"Replica {replica}: {name!r} has other bytes."


class TestWaitingForAll:
    @pytest.mark.quick("one server-Adam", "two rings-momentum")
    @pytest.mark.parametrize("optimizer", ["SGD", "momentum", "Adam"])
    @pytest.mark.parametrize("way", WAYS)
    def test_is_plain_training_to_the_bit(self, way: str, optimizer: str) -> None:
        expected = plain("table", optimizer, way)
        seen, drawn = found("table", optimizer, way), known("table", optimizer, way, CutOff(4))
        for number, batches in enumerate(reference("table", optimizer, 4).batches):
            loss = pytest.approx(expected.on(batches), rel=1e-6)  # the four terms of a loss are added in any order
            assert seen.take(number, Decision(first=4), batches).loss == loss
            assert drawn.on(batches) == loss
        assert_same(seen, expected)
        assert_same(drawn, expected)
        seen.close()


class TestWhoIsLate:
    @pytest.mark.quick("*cut-table-Adam", "two rings-dense-momentum", "shards*-table-SGD")
    @pytest.mark.parametrize("optimizer", ["SGD", "momentum", "Adam", "clipped"])
    @pytest.mark.parametrize("task", ["table", "dense", "tied"])
    @pytest.mark.parametrize("way", WAYS)
    def test_found_out_has_the_same_bits_as_if_it_had_weighed_nothing(
        self, way: str, task: str, optimizer: str
    ) -> None:
        step, expected = found(task, optimizer, way, MASKS), plain(task, optimizer, way)
        for number, (mask, batches) in enumerate(zip(MASKS, reference(task, optimizer, 4).batches, strict=True)):
            assert take(step, number, batches, len(mask)) == mask
            expected.on(batches, weights_of(mask))
        assert_same(step, expected)
        step.close()

    @pytest.mark.quick("*cut-table-Adam", "two rings-dense-momentum")
    @pytest.mark.parametrize("optimizer", ["momentum", "Adam", "clipped"])
    @pytest.mark.parametrize("task", ["table", "dense"])
    @pytest.mark.parametrize("way", WAYS)
    def test_known_beforehand_has_them_too(self, way: str, task: str, optimizer: str) -> None:
        step, expected = known(task, optimizer, way, CutOff(2, "stop")), plain(task, optimizer, way)
        masks = set()
        for batches in reference(task, optimizer, 4).batches:
            step.on(batches)
            assert step.report is not None
            mask = tuple(replica for replica, arrival in enumerate(step.report.arrivals) if arrival is not None)
            expected.on(batches, weights_of(mask))
            masks.add(mask)
        assert_same(step, expected)
        assert len(masks) > 1, "the draws are to differ"
        assert all(len(mask) == 2 for mask in masks)

    @pytest.mark.quick("*top-k*own*")
    @pytest.mark.parametrize("way", COMPRESSED)
    def test_compressors_send_what_they_remember_of_the_late(self, way: str) -> None:
        step, expected = found("dense", "momentum", way, MASKS), plain("dense", "momentum", way)
        for number, (mask, batches) in enumerate(zip(MASKS, reference("dense", "momentum", 4).batches, strict=True)):
            take(step, number, batches, len(mask))
            expected.on(batches, weights_of(mask))
        assert_same(step, expected)
        for actual, wanted in zip(step.state().synchronizer_state, expected.state().synchronizer_state, strict=True):
            assert actual.tobytes() == wanted.tobytes()
        step.close()

    @pytest.mark.parametrize("way", ["one server", "two rings"])
    def test_does_no_harm_with_what_is_no_number(self, way: str) -> None:
        """A late pass leaves no trace in a replica's own state either, which is an average of its batches."""
        steps = [found("normalized", "momentum", way, MASKS) for _ in range(2)]
        steps += [known("normalized", "momentum", way, CutOff(3, "stop")).step for _ in range(2)]
        (batches, *_) = _batches("normalized", 1)
        for step, poisoned in zip(steps, (False, True, False, True), strict=True):
            late = 2 if isinstance(step, KSyncStep) else _slowest(step)
            given = [list(batch) for batch in batches]
            if poisoned:
                given[late] = [
                    tensor * np.nan if tensor.dtype.is_floating else tensor for tensor in map(tf.constant, given[late])
                ]
            before = step.state()
            report = step.take(0, Decision(first=3), given)
            if isinstance(step._pause if isinstance(step, KSyncStep) else None, Script):
                step._pause.let_go(0)
            assert report.arrivals[late] is None
            after: StepState = step.state()
            assert np.isfinite(report.loss)
            assert all(np.isfinite(value).all() for value in after.values.values())
            for number, (old, new) in enumerate(zip(before.replica_state, after.replica_state, strict=True)):
                changed = [a.tobytes() != b.tobytes() for a, b in zip(old, new, strict=True)]
                assert any(changed) == (number != late)
        assert_same(steps[0], steps[1])
        assert_same(steps[2], steps[3])
        steps[0].close()
        steps[1].close()

    def test_finishes_its_pass_while_others_go_on(self) -> None:
        session = session_on("dense", "SGD", FOUR)
        step = found("dense", "SGD", "two rings")
        go_on = threading.Event()
        begun: list[tuple[int, int]] = []

        def pause(replica: int, number: int) -> None:
            begun.append((replica, number))
            if replica == 1 and number == 0:
                go_on.wait()

        step._pause = pause
        expected = session.realize(strategy_of(session, "two rings", None))
        given = _batches("dense", 4)
        for number, count in ((0, 3), (1, 3), (2, 3)):
            assert take(step, number, given[number], count) == (0, 2, 3)
            expected.on(given[number], weights_of((0, 2, 3)))
        go_on.set()
        assert take(step, 3, given[3], 4) == (0, 1, 2, 3), "it is waited for again"
        expected.on(given[3])
        assert_same(step, expected)
        assert [number for replica, number in begun if replica == 1] == [0, 3]
        step.close()

    def test_that_a_replica_fails_is_told_to_who_waits(self) -> None:
        step = found("dense", "SGD", "two rings")

        def pause(replica: int, _step: int) -> None:
            if replica == 1:
                raise ValueError("nothing there")

        step._pause = pause
        with pytest.raises(ValueError, match="nothing there"):
            _taken_and_settled(step)
        step.close()

    def test_a_replica_without_examples_is_not_waited_for(self) -> None:
        steps = (found("dense", "SGD", "two rings"), known("dense", "SGD", "two rings", CutOff(3, "stop")).step)
        expected = plain("dense", "SGD", "two rings")
        (batches,) = _batches("dense", 1)
        weights = [2.0, 0.0, 2.0, 0.0]
        expected.on(batches, weights)
        for step in steps:
            report = step.take(0, Decision(first=3), batches, weights)
            assert [arrival is None for arrival in report.arrivals] == [False, True, False, True]
            assert_same(step, expected)
            step.close()


@pytest.mark.quick("*ring*momentum", "one server-SGD")
@pytest.mark.parametrize("optimizer", ["SGD", "momentum"])
@pytest.mark.parametrize("way", ["one server", "two rings"])
def test_twenty_steps_train_like_the_algorithm_in_numpy(way: str, optimizer: str, tally: Any) -> None:
    run = Run("double", optimizer)
    masks = [MASKS[step % len(MASKS)] for step in range(run.steps)]
    step, batches = found("double", optimizer, way, masks), _batches("double", run.steps)
    for number, (mask, given) in enumerate(zip(masks, batches, strict=True)):
        assert take(step, number, given, len(mask)) == mask
    task, _, gradients_of = backward("double")
    values = {variable.path: np.array(variable.numpy()) for variable in task.model.trainable_variables}
    speeds = {name: np.zeros_like(value) for name, value in values.items()}
    for mask, given in zip(masks, batches, strict=True):
        at = [tf.constant(value) for value in values.values()]
        gradients = [[gradient.numpy() for gradient in gradients_of(at, given[replica])[1]] for replica in mask]
        for name, mean in zip(
            values, (np.mean(of_variable, axis=0) for of_variable in zip(*gradients, strict=True)), strict=True
        ):
            speeds[name] = MOMENTUM[optimizer] * speeds[name] - LEARNING_RATE * mean
            values[name] = values[name] + speeds[name]
    reached = step.values()
    error = max(float(np.abs(reached[name] - value).max() / np.abs(value).max()) for name, value in values.items())
    assert error <= EXACT
    tally("cut-off (float64)", error)
    step.close()


class TestGoingOn:
    def test_a_run_on_known_passes_is_the_uninterrupted_one_to_the_bit(self) -> None:
        whole, first, second = (known("normalized", "Adam", "two rings", CutOff(2, "stop")) for _ in range(3))
        masks: list[Any] = []
        for number in range(10):
            whole()
            assert whole.report is not None
            masks.append([arrival is None for arrival in whole.report.arrivals])
            if number < 4:
                first()
        second.load(first.state())
        for number in range(4, 10):
            second()
            assert second.report is not None
            assert [arrival is None for arrival in second.report.arrivals] == masks[number]
        assert_same(second, whole)

    def test_a_run_that_finds_out_goes_on_from_a_saved_state(self) -> None:
        step, other = (found("normalized", "Adam", "one server") for _ in range(2))
        for number, batches in enumerate(_batches("normalized", 3)):
            take(step, number, batches, 3)
        other.load(step.state())
        assert_same(other, step)
        step.close()
        other.close()


class TestTimetable:
    """Three replicas. A step takes as long as the last pass that it waits for, plus half a second."""

    def masks(self, stops: bool, passes: Sequence[Sequence[float]], first: int = 2) -> list[tuple[float | None, ...]]:
        now = [100.0]
        timetable = Timetable([None] * 3, stops, lambda: now[0])
        told = []
        for pass_ in passes:
            ends = timetable.begin(np.array(pass_), [8] * 3, [True] * 3, first)
            told.append(ends.arrivals)
            waited = max(end for end in ends.arrivals if end is not None)
            assert (ends.delays + ends.waited).max() == pytest.approx(waited)
            now[0] += waited + 0.5
            timetable.end()
        return told

    def test_one_that_stops_begins_each_step_with_the_others(self) -> None:
        assert self.masks(True, [(1, 2, 9), (1, 9, 2), (3, 3, 3)]) == [(1, 2, None), (1, None, 2), (3, 3, None)]

    def test_one_that_finishes_begins_its_next_pass_then(self) -> None:
        told = self.masks(False, [(1, 2, 4), (1, 9, 2), (1, 1, 1)])
        # The third replica is free 1.5 s after the second step has begun. Then the second replica is late, for 9 s.
        assert told[:2] == [(1, 2, None), (1, None, 3.5)]
        assert told[2] == (1, None, 1)

    def test_one_that_is_late_for_several_steps_begins_none_of_them(self) -> None:
        told = self.masks(False, [(1, 1, 5), (1, 1, 99), (1, 1, 99), (2, 2, 2), (9, 9, 1)])
        # Its pass ends 5 s after the beginning, in the fourth step. Longer passes that it has not begun do not matter.
        assert [report[2] for report in told[:3]] == [None] * 3
        assert told[3] == (2, 2, None)
        assert told[4] == (9, None, 1)

    @pytest.mark.parametrize("stops", [True, False])
    def test_what_a_late_pass_would_have_taken_is_not_to_be_seen(self, stops: bool) -> None:
        clean, poisoned = (self.masks(stops, [(1, 2, late), (1, 2, late)]) for late in (50.0, float("inf")))
        assert clean == poisoned == [(1, 2, None)] * 2

    def test_of_passes_that_end_at_once_the_first_replicas_come_first(self) -> None:
        assert self.masks(True, [(1, 1, 1)]) == [(1, 1, None)]


def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    session = session_on("dense", "SGD", FOUR)
    with pytest.raises(SpecError, match="Only passes on paced nodes can be stopped"):
        session.realize(strategy_of(session, "two rings", CutOff(3, "stop")))
    with pytest.raises(SpecError, match="A step waits for at most all 4 replicas, not for the first 5"):
        session.realize(strategy_of(session, "two rings", CutOff(5)))
    scaled = session_on("dense", "scaled", FOUR)
    with pytest.raises(SpecError, match="Loss scaling needs steps that wait for all replicas"):
        scaled.realize(strategy_of(scaled, "two rings", CutOff(3)))


def _batches(task: str, steps: int) -> list[list[tuple[Any, ...]]]:
    """The batches of four replicas in `count` steps."""
    _, make, _ = backward(task)
    return [[tuple(make(tf.constant([step, replica], tf.int32))) for replica in range(4)] for step in range(steps)]


def _taken_and_settled(step: KSyncStep) -> None:
    step.take(0, Decision(first=3), _batches("dense", 1)[0])
    step.settle()  # the other replicas may have been enough


def _slowest(step: Any) -> int:
    return int(np.argmax(step._pacing.seconds(0, 0)))
