"""The contract of fidelities: the ratio of top-k is an input at run time, and gives the bits of a fixed ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.core.control_loop import ControlLoop
from autosync.engine.tensorflow.step.decided import DecidedStep
from autosync.engine.tensorflow.step.k_sync import KSyncStep
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.errors import SpecError
from autosync.spec import (
    PLACED_ALGORITHMS,
    PLAIN,
    AllReduce,
    CutOff,
    Decision,
    Discipline,
    Fidelity,
    ParameterServer,
    Strategy,
    Synchronizer,
    TopK,
    TopKTransport,
    VariableStrategy,
)
from tests.cases import local_cluster
from tests.contracts.compressed_training import backward
from tests.contracts.parity import reference, session_on

FOUR = local_cluster(4)
RATIOS = (0.3, 0.1, 0.02)
WAYS: dict[str, Synchronizer] = {
    "own, all-gathered": AllReduce(0, compressor=TopK(0.5)),
    "own, a server": ParameterServer("node0/cpu:1", compressor=TopK(0.5)),
    "var, ring": AllReduce(0, "ring", TopK(0.5, "var")),
    **{f"star, {name}": AllReduce(0, name, TopK(0.5, "star")) for name in PLACED_ALGORITHMS},
}


def strategy_of(way: str, ratio: float, discipline: Discipline = PLAIN) -> Strategy:
    session = session_on("dense", "momentum", FOUR)
    shard = replace(WAYS[way], compressor=replace(WAYS[way].compressor, ratio=ratio))  # type: ignore[type-var]
    variables = tuple(VariableStrategy(variable.name, (shard,)) for variable in session.model.variables)
    return Strategy(tuple(map(str, FOUR.replica_devices)), variables, discipline)


def fixed(way: str, ratio: float) -> SynchronousStep:
    step = session_on("dense", "momentum", FOUR).realize(strategy_of(way, ratio))
    assert isinstance(step, SynchronousStep)
    return step


def told(way: str, ratios: tuple[float, ...] = RATIOS) -> DecidedStep:
    discipline = Discipline(fidelity=Fidelity(ratios, 1))
    step = session_on("dense", "momentum", FOUR).realize(strategy_of(way, 0.5, discipline))
    assert isinstance(step, ControlLoop)
    assert isinstance(step.step, DecidedStep)
    return step.step


def batches() -> Sequence[Any]:
    return reference("dense", "momentum", 4).batches


def assert_same(one: Any, other: Any) -> None:
    for replica in range(4):
        expected = other.values(replica)
        for name, value in one.values(replica).items():
            assert value.tobytes() == expected[name].tobytes(), f"Replica {replica}: {name!r} has other bytes."
    for mine, its in zip(one.state().synchronizer_state, other.state().synchronizer_state, strict=True):
        assert mine.tobytes() == its.tobytes()


class TestToldAtRunTime:
    @pytest.mark.quick("own*", "star, ring", "star, rabenseifner")
    @pytest.mark.parametrize("way", WAYS)
    def test_a_ratio_has_the_same_bits_as_if_it_were_fixed_and_all_have_one_trace(self, way: str) -> None:
        decisions = [Decision(ratio=number) for number in range(len(RATIOS))]
        for decision, ratio in zip(decisions, RATIOS, strict=True):
            step, expected = told(way), fixed(way, ratio)
            for number, given in enumerate(batches()):
                step.take(number, decision, given)
                expected.on(given)
            assert_same(step, expected)
        for decision in decisions:
            step.take(9, decision, batches()[0])
        assert step._function(decisions[0]).experimental_get_tracing_count() == 1

    @pytest.mark.quick("own, a server", "star, ring")
    @pytest.mark.parametrize("way", WAYS)
    def test_what_was_not_sent_is_remembered_when_the_ratio_changes(self, way: str) -> None:
        step, before, after = told(way), fixed(way, RATIOS[0]), fixed(way, RATIOS[2])
        for number, given in enumerate(batches()):
            step.take(number, Decision(ratio=0 if number < 2 else 2), given)
            if number == 2:
                after.load(before.state())
            (before if number < 2 else after).on(given)
        assert_same(step, after)

    def test_with_a_ratio_of_1_a_server_trains_plainly_to_the_bit(self) -> None:
        session = session_on("dense", "momentum", FOUR)
        variables = tuple(
            VariableStrategy(variable.name, (ParameterServer("node0/cpu:1"),)) for variable in session.model.variables
        )
        plain = session.realize(Strategy(tuple(map(str, FOUR.replica_devices)), variables))
        step = told("own, a server", (0.1, 1.0))
        for number, given in enumerate(batches()):
            step.take(number, Decision(ratio=1), given)
            plain.on(given)
        for name, value in step.values().items():
            assert value.tobytes() == plain.values()[name].tobytes(), name

    @pytest.mark.parametrize("way", ["own, all-gathered", "star, ring"])
    def test_with_a_ratio_of_1_all_is_all_reduced_to_the_bit_and_nothing_is_left(self, way: str) -> None:
        step = told(way, (1.0, 0.1))
        session = session_on("dense", "momentum", FOUR)
        shaped = strategy_of(way, 0.5, PLAIN)
        plain = session.realize(
            replace(
                shaped,
                variables=tuple(
                    replace(variable, shards=tuple(replace(shard, compressor=None) for shard in variable.shards))
                    for variable in shaped.variables
                ),
            )
        )
        for number, given in enumerate(batches()):
            report = step.take(number, Decision(ratio=0, watches=number % 2 == 1), given)
            assert all(of_replica[0] == 1 and of_replica[1] < 1 for of_replica in report.energies)
            plain.on(given)
        for name, value in step.values().items():
            assert value.tobytes() == plain.values()[name].tobytes(), name
        assert all(not memory.any() for memory in step.state().synchronizer_state if memory.dtype == np.float32)
        before = step.values()
        step.take(9, Decision(ratio=1), batches()[0])
        step.take(9, Decision(ratio=0), batches()[0])
        assert all((value != before[name]).any() for name, value in step.values().items())

    def test_it_is_told_where_it_is_found_out_who_is_late(self) -> None:
        discipline = Discipline(waits=CutOff(4), fidelity=Fidelity(RATIOS, 2))
        step = session_on("dense", "momentum", FOUR).realize(strategy_of("star, ring", 0.5, discipline))
        assert isinstance(step, ControlLoop)
        assert isinstance(step.step, KSyncStep)
        expected = told("star, ring")
        for number, given in enumerate(batches()):
            step.on(given)
            expected.take(number, Decision(ratio=number // 2), given)
        assert_same(step, expected)
        step.close()


class TestWatching:
    @pytest.mark.parametrize("way", ["own, all-gathered", "own, a server", "star, tree"])
    def test_a_report_says_what_every_ratio_would_keep_of_each_replicas_gradient(self, way: str) -> None:
        step, (given, *_) = told(way), batches()
        report = step.take(0, Decision(ratio=1, watches=True), given)
        task, _, gradients_of = backward("dense")
        values = [variable.value for variable in task.model.trainable_variables]
        layout = [holder.shards for holder in (*step.placed.buckets, *step.placed.servers)]
        names = [variable.path for variable in task.model.trainable_variables]
        for replica, found in enumerate(report.energies):
            gradient = dict(
                zip(names, (gradient.numpy() for gradient in gradients_of(values, given[replica])[1]), strict=True)
            )
            squares = [
                np.sort(np.concatenate([gradient[shard.variable.name].reshape(-1) for shard in shards]) ** 2)[::-1]
                for shards in layout
            ]
            whole = sum(float(array.sum()) for array in squares)
            for ratio, share in zip(RATIOS, found, strict=True):
                kept = sum(float(array[: TopK.count(ratio, len(array))].sum()) for array in squares)
                assert share == pytest.approx(kept / whole, rel=1e-5)
        assert len(report.energies) == 4

    def test_costs_no_bit_where_all_choose_for_themselves(self) -> None:
        watched, unwatched = told("own, a server"), told("own, a server")
        for number, given in enumerate(batches()):
            watched.take(number, Decision(ratio=1, watches=True), given)
            unwatched.take(number, Decision(ratio=1), given)
        assert_same(watched, unwatched)


def test_a_warm_up_takes_the_ratios_in_turn_and_goes_on_after_a_saved_state() -> None:
    session = session_on("dense", "momentum", FOUR)
    discipline = Discipline(fidelity=Fidelity(RATIOS, 2))
    whole, first, second = (session.realize(strategy_of("star, ring", 0.5, discipline)) for _ in range(3))
    given = [batches()[number % 4] for number in range(8)]
    for batch in given:
        whole.on(batch)
    for batch in given[:3]:
        first.on(batch)
    second.load(first.state())
    for batch in given[3:]:
        second.on(batch)
    assert_same(second, whole)


def test_top_k_counts_like_its_ratio() -> None:
    assert [TopK.count(ratio, 10) for ratio in (0.01, 0.1, 0.11, 1.0)] == [1, 1, 2, 10]
    assert TopK(0.3).kept(10) == 3


TRANSPORTS = (
    TopKTransport("own"),
    TopKTransport("star", "ring"),
    TopKTransport("var", "tree"),
    TopKTransport("star", "rabenseifner"),
)


def switching(discipline: Discipline, optimizer: str = "momentum") -> ControlLoop:
    session = session_on("dense", optimizer, FOUR)
    step = session.realize(strategy_of("own, all-gathered", 0.1, discipline))
    assert isinstance(step, ControlLoop)
    return step


class TestTransports:
    @pytest.mark.quick("0", "1")
    @pytest.mark.parametrize("number", range(len(TRANSPORTS)))
    def test_one_that_is_told_has_the_bits_of_one_that_is_fixed(self, number: int) -> None:
        transport = TRANSPORTS[number]
        several = switching(Discipline(fidelity=Fidelity((0.1,), 1, transports=TRANSPORTS))).step
        alone = switching(Discipline(fidelity=Fidelity((0.1,), 1, transports=(transport,)))).step
        plain = Fidelity((0.1,), 1)
        session = session_on("dense", "momentum", FOUR)
        shard = AllReduce(0, transport.algorithm, TopK(0.5, transport.indices))
        fixed_strategy = replace(
            strategy_of("own, all-gathered", 0.1, Discipline(fidelity=plain)),
            variables=tuple(VariableStrategy(variable.name, (shard,)) for variable in session.model.variables),
        )
        fixed_step = session.realize(fixed_strategy)
        assert isinstance(fixed_step, ControlLoop)
        for step, batch in enumerate(batches()):
            several.take(step, Decision(ratio=0, transport=number), batch)
            alone.take(step, Decision(ratio=0, transport=0), batch)
            fixed_step.step.take(step, Decision(ratio=0), batch)
        for replica in range(4):
            for name, value in fixed_step.values(replica).items():
                assert (
                    value.tobytes() == several.values(replica)[name].tobytes() == alone.values(replica)[name].tobytes()
                )

    def test_what_was_not_sent_by_one_is_sent_by_the_next(self) -> None:
        """With SGD, the applied updates and the unsent rests of replicas add up to the gradients."""
        step = switching(Discipline(fidelity=Fidelity((0.1,), 1, transports=TRANSPORTS)), "SGD").step
        assert isinstance(step, DecidedStep)
        task, _, gradients_of = backward("dense")
        paths = [variable.path for variable in task.model.trainable_variables]
        first, total = step.values(), dict.fromkeys(paths, 0.0)
        for number, batch in enumerate([*batches(), *batches()]):
            now = step.values()
            of_replicas = [gradients_of([tf.constant(now[path]) for path in paths], own)[1] for own in batch]
            for path, *gradients in zip(paths, *of_replicas, strict=True):
                total[path] = total[path] + sum(gradient.numpy() for gradient in gradients) / 4
            step.take(number, Decision(ratio=0, transport=number % 4), batch)
        memory = step.state().synchronizer_state[:4]
        order = [shard.variable.name for bucket in step.placed.buckets for shard in bucket.shards]
        applied = np.concatenate([np.ravel((first[path] - step.values()[path]) / 0.1) for path in order])
        given = np.concatenate([np.ravel(total[path]) for path in order])
        np.testing.assert_allclose(applied + np.mean(memory, axis=0), given, rtol=0, atol=2e-6 * np.abs(given).max())
        assert np.abs(memory).max() > 0

    def test_found_out_who_is_late_they_are_told_too(self) -> None:
        both = Discipline(waits=CutOff(4), fidelity=Fidelity((0.1,), 1, transports=TRANSPORTS))
        found, known = switching(both), switching(Discipline(fidelity=both.fidelity))
        assert isinstance(found.step, KSyncStep)
        for number, batch in enumerate(batches()):
            decision = Decision(ratio=0, transport=number % 4)
            found.step.take(number, replace(decision, first=4), batch)
            known.step.take(number, decision, batch)
        assert_same(found, known)
        found.close()

    def test_what_is_none_is_refused_in_a_sentence(self) -> None:
        with pytest.raises(SpecError, match="A transport's algorithm is one of ring, tree"):
            TopKTransport("star", "collective")
        with pytest.raises(SpecError, match="A transport's indices are own, star, var; 'all' is not"):
            TopKTransport("all")
        with pytest.raises(SpecError, match="A fidelity has 1 to 4 transports, not 0"):
            Fidelity((0.1,), 1, transports=())
