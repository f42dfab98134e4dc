"""The contract of rhythms: each replica trains as if alone, then all take one mean; NumPy agrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.core.control_loop import ControlLoop
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.decided import DecidedStep
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.errors import SpecError
from autosync.spec import BlockMomentum, ClusterSpec, Decision, Discipline, Elastic, ModelSpec, Rhythm, Strategy
from tests.cases import local_cluster, racks
from tests.contracts.compressed_training import LEARNING_RATE, MOMENTUM, Run, backward
from tests.contracts.parity import captured_task, reference, session_on
from tests.contracts.ways import ALONE

THREE = local_cluster(3)
CLUSTERS = {"three workers": THREE, "racks of two and three": racks(2, 3)}
MEET, APART = Decision(meets=True), Decision(meets=False)
WAYS = ("two rings", "rings, first axis cut", "hierarchies, first axis cut", "one collective", "every algorithm")
RHYTHMS = {
    "parameters": Rhythm(3),
    "gradients": Rhythm(3, averages="gradients"),
    "block momentum": Rhythm(3, block=BlockMomentum(0.5, 0.9)),
    "outer Nesterov": Rhythm(3, block=BlockMomentum(0.5, 0.7, nesterov=True)),
    "elastic": Rhythm(3, elastic=Elastic(0.2)),
}
EXACT = 1e-10
"""Largest max|a - b| / max|b| of any variable at the end of a run in float64."""


def with_rhythm(way: str, rhythm: Rhythm, model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    return replace(ALONE[way](model, cluster), discipline=Discipline(rhythm))


def controlled(way: str, rhythm: Rhythm, task: str, optimizer: str, cluster: ClusterSpec = THREE) -> ControlLoop:
    session = session_on(task, optimizer, cluster)
    step = session.realize(with_rhythm(way, rhythm, session.model, cluster))
    assert isinstance(step, ControlLoop)
    return step


def started(way: str, rhythm: Rhythm, task: str, optimizer: str, cluster: ClusterSpec = THREE) -> DecidedStep:
    step = controlled(way, rhythm, task, optimizer, cluster).step
    assert isinstance(step, DecidedStep)
    return step


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes(), f"{name!r} has other bytes."


class TestMeetingInEveryStep:
    """A period of 1 that averages gradients is plain training."""

    @pytest.mark.quick("two rings-momentum", "every algorithm-Adam")
    @pytest.mark.parametrize("optimizer", ["SGD", "momentum", "Adam"])
    @pytest.mark.parametrize("way", WAYS)
    def test_is_plain_training_to_the_bit(self, way: str, optimizer: str) -> None:
        session = session_on("table", optimizer, THREE)
        plain = session.realize(ALONE[way](session.model, THREE))
        assert isinstance(plain, SynchronousStep)
        step = controlled(way, Rhythm(1, averages="gradients"), "table", optimizer)
        for batches in reference("table", optimizer, 3).batches:
            assert step.on(batches) == plain.on(batches)
        for replica in range(3):
            assert_same(step.values(replica), plain.values(replica))
        assert_same(step.state().values, plain.state().values)


class TestApart:
    @pytest.mark.quick("two rings-table-Adam", "one collective-dense-momentum")
    @pytest.mark.parametrize("optimizer", ["SGD", "momentum", "Adam"])
    @pytest.mark.parametrize("task", ["table", "dense", "tied"])
    @pytest.mark.parametrize("way", WAYS)
    def test_each_replica_trains_as_if_it_were_alone_to_the_bit(self, way: str, task: str, optimizer: str) -> None:
        step = started(way, Rhythm(4), task, optimizer)
        expected = reference(task, optimizer, 3)
        losses = [step.take(0, APART, batches).loss for batches in expected.batches]
        for replica in range(3):
            session = session_on(task, optimizer, local_cluster(1))
            alone = session.realize(ALONE["one ring"](session.model, local_cluster(1)))
            own = [alone.on([batches[replica]]) for batches in expected.batches]
            assert np.isfinite(own).all()
            assert_same(step.values(replica), alone.values())
            losses = [total - loss / 3 for total, loss in zip(losses, own, strict=True)]
        np.testing.assert_allclose(losses, 0, atol=1e-5)  # the mean of the replicas' values

    def test_examples_count_within_their_replica_only(self) -> None:
        step, plain = (started("two rings", Rhythm(4), "dense", "SGD") for _ in range(2))
        (batches, *_) = reference("dense", "SGD", 3).batches
        loss = step.take(0, APART, batches, (0.6, 2.4, 0.0)).loss
        single = plain.take(0, APART, batches).loss
        for replica in (0, 1):
            assert_same(step.values(replica), plain.values(replica))
        assert_same(step.values(2), started("two rings", Rhythm(4), "dense", "SGD").values(2))
        assert np.isfinite([loss, single]).all()
        assert loss != single


class TestAThreshold:
    """A synchronization that is decided after the step has the same result."""

    @pytest.mark.quick("two rings-momentum")
    @pytest.mark.parametrize("optimizer", ["momentum", "Adam"])
    @pytest.mark.parametrize("way", WAYS)
    def test_meeting_after_a_step_is_meeting_in_it_to_the_bit(self, way: str, optimizer: str) -> None:
        after, within, never = (
            controlled(way, rhythm, "table", optimizer)
            for rhythm in (Rhythm(threshold=0.0), Rhythm(1), Rhythm(threshold=1e9))
        )
        for number, batches in enumerate(reference("table", optimizer, 3).batches):
            assert after.on(batches) == within.on(batches)
            never.on(batches)
            if number == 0:
                assert_same(never.values(1), within.values(1))  # all replicas synchronize after the first step
        for replica in range(3):
            assert_same(after.values(replica), within.values(replica))
        assert never.values(0)["embedding/embeddings"].tobytes() != never.values(1)["embedding/embeddings"].tobytes()

    def test_a_report_has_the_squared_norm_of_each_replicas_own_gradient(self) -> None:
        step = started("two rings", Rhythm(threshold=0.1), "double", "SGD")
        batches, _ = in_numpy(Run("double", "SGD", steps=1), Rhythm(1), 3)
        task, _, gradients_of = backward("double")
        values = [variable.value for variable in task.model.trainable_variables]
        expected = [
            sum(float((gradient.numpy() ** 2).sum()) for gradient in gradients_of(values, own)[1]) for own in batches[0]
        ]
        report = step.take(0, Decision(meets=None), batches[0])
        np.testing.assert_allclose(report.square_norms, expected, rtol=1e-6)
        assert started("two rings", Rhythm(2), "double", "SGD").take(0, APART, batches[0]).square_norms == ()


class TestMeeting:
    @pytest.mark.quick("two rings-three workers", "every algorithm-racks*")
    @pytest.mark.parametrize("cluster", CLUSTERS)
    @pytest.mark.parametrize("way", WAYS)
    def test_all_take_the_mean_of_their_values_with_the_same_bits(self, way: str, cluster: str) -> None:
        replicas = len(CLUSTERS[cluster].replica_devices)
        apart, meeting = (started(way, Rhythm(4), "table", "momentum", CLUSTERS[cluster]) for _ in range(2))
        batches = reference("table", "momentum", replicas).batches
        apart.take(0, APART, batches[0])
        meeting.take(0, MEET, batches[0])
        each = [apart.values(replica) for replica in range(replicas)]
        for name, value in meeting.values().items():
            mean = np.mean([of[name] for of in each], axis=0, dtype=np.float64)
            np.testing.assert_allclose(value, mean, rtol=0, atol=1e-6 * np.abs(mean).max())
        for replica in range(1, replicas):
            assert_same(meeting.values(replica), meeting.values())

    @pytest.mark.quick("*-momentum")
    @pytest.mark.parametrize("optimizer", ["SGD", "momentum"])
    @pytest.mark.parametrize("rhythm", RHYTHMS.values(), ids=list(RHYTHMS))
    def test_twenty_steps_train_like_the_algorithm_in_numpy(self, rhythm: Rhythm, optimizer: str, tally: Any) -> None:
        step = controlled("two rings", rhythm, "double", optimizer)
        batches, expected = in_numpy(Run("double", optimizer), rhythm, 3)
        for batch in batches:
            step.on(batch)
        errors = [
            np.abs(value - expected[replica][name]).max() / np.abs(value).max()
            for replica in range(3)
            for name, value in step.values(replica).items()
        ]
        assert max(errors) <= EXACT
        tally("rhythms (float64)", float(max(errors)))


def in_numpy(run: Run, rhythm: Rhythm, replicas: int) -> tuple[list[Any], list[dict[str, Any]]]:
    """Stich 2019, algorithm 1, with momentum: return all batches, and the final values of every replica."""
    task, make, gradients_of = backward(run.task)
    start = {variable.path: np.array(variable.numpy()) for variable in task.model.trainable_variables}
    values = [dict(start) for _ in range(replicas)]
    speeds = [{name: np.zeros_like(value) for name, value in start.items()} for _ in range(replicas)]
    meetings = {name: _Meeting(rhythm, value, replicas) for name, value in start.items()}
    given = []
    for step in range(run.steps):
        batches = [tuple(make(tf.constant([step, replica], tf.int32))) for replica in range(replicas)]
        found = [
            dict(zip(own, _arrays(gradients_of([tf.constant(value) for value in own.values()], batch)[1]), strict=True))
            for own, batch in zip(values, batches, strict=True)
        ]
        meets = (step + 1) % rhythm.steps == 0
        if meets and rhythm.averages == "gradients":
            found = [_mean(found)] * replicas
        for own, speed, gradient in zip(values, speeds, found, strict=True):
            for name, array in gradient.items():
                speed[name] = MOMENTUM[run.optimizer] * speed[name] - LEARNING_RATE * array
                own[name] = own[name] + speed[name]
        if meets and rhythm.averages == "parameters":
            values = [{name: meetings[name](own[name], mean) for name, mean in _mean(values).items()} for own in values]
            for meeting in meetings.values():
                meeting.end()
        given.append(batches)
    return given, values


class _Meeting:
    """The outer optimizer of one variable, with the papers' centre and speed, which all replicas share."""

    def __init__(self, rhythm: Rhythm, start: Any, replicas: int) -> None:
        self._rhythm = rhythm
        self._centre, self._speed = start, np.zeros_like(start)
        self._replicas = replicas
        self._mean = start

    def __call__(self, value: Any, mean: Any) -> Any:
        self._mean = mean
        if block := self._rhythm.block:
            speed = block.momentum * self._speed + block.rate * (mean - self._centre)
            return self._centre + speed * (1 + block.momentum * block.nesterov)
        if elastic := self._rhythm.elastic:
            return value - elastic.pull * (value - self._centre)
        return mean

    def end(self) -> None:
        """End a synchronization of all replicas."""
        if block := self._rhythm.block:
            self._speed = block.momentum * self._speed + block.rate * (self._mean - self._centre)
            self._centre = self._centre + self._speed
        if elastic := self._rhythm.elastic:
            self._centre = self._centre + elastic.pull * self._replicas * (self._mean - self._centre)


def _arrays(tensors: Sequence[Any]) -> list[Any]:
    return [tensor.numpy() for tensor in tensors]


def _mean(of_replicas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.mean([of_replica[name] for of_replica in of_replicas], axis=0) for name in of_replicas[0]}


class TestState:
    @pytest.mark.quick("outer Nesterov-table-Adam", "elastic-table-Adam")
    @pytest.mark.parametrize("optimizer", ["momentum", "Adam"])
    @pytest.mark.parametrize("task", ["table", "pooled"])
    @pytest.mark.parametrize("rhythm", RHYTHMS.values(), ids=list(RHYTHMS))
    def test_a_run_goes_on_in_the_middle_of_a_period_to_the_bit(
        self, rhythm: Rhythm, task: str, optimizer: str
    ) -> None:
        first, second, whole = (controlled("rings, first axis cut", rhythm, task, optimizer) for _ in range(3))
        for _ in range(5):
            first()
        saved = first.state()
        assert saved.controller == {"steps": 5, "state": {"apart": 2}}
        second.load(saved)
        for _ in range(5):
            second()
        for _ in range(10):
            whole()
        for replica in range(3):
            assert_same(second.values(replica), whole.values(replica))
        assert_same(second.state().values, whole.state().values)

    def test_what_is_read_as_the_models_values_is_the_replicas_mean_and_can_be_given_to_all(self) -> None:
        step = started("two rings", Rhythm(9), "table", "momentum")
        step.take(0, APART)
        saved = step.state()
        each = [step.values(replica) for replica in range(3)]
        for name, value in saved.values.items():
            np.testing.assert_allclose(value, np.mean([of[name] for of in each], axis=0), rtol=1e-6, atol=1e-7)
        step.load(replace(saved, own=()))
        for replica in range(3):
            assert_same(step.values(replica), saved.values)
        with pytest.raises(
            SpecError, match=r"A saved state with separate values of replicas fits only its own strategy"
        ):
            step.load(replace(saved, own=saved.own[:-1]))


def test_what_looks_at_all_gradients_together_is_refused() -> None:
    session = TensorFlowSession(captured_task("dense", "clipped"), THREE, Placement.in_one_process(THREE))
    with pytest.raises(SpecError, match=r"^Loss scaling and clipping by the common norm need the gradients of all"):
        session.realize(with_rhythm("two rings", Rhythm(2), session.model, THREE))
