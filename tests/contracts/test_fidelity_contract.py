"""The contract of fidelities: how much top-k keeps is told at run time, and changes no bit of what it would be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosync.engine.step.controlled import ControlledStep
from autosync.engine.step.decided import DecidedStep
from autosync.engine.step.first import FirstStep
from autosync.engine.step.realize import Step
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
    variables = tuple(VariableStrategy(each.name, (shard,)) for each in session.model.variables)
    return Strategy(tuple(map(str, FOUR.replica_devices)), variables, discipline)


def fixed(way: str, ratio: float) -> Step:
    step = session_on("dense", "momentum", FOUR).realize(strategy_of(way, ratio))
    assert isinstance(step, Step)
    return step


def told(way: str, ratios: tuple[float, ...] = RATIOS) -> DecidedStep:
    discipline = Discipline(fidelity=Fidelity(ratios, 1))
    step = session_on("dense", "momentum", FOUR).realize(strategy_of(way, 0.5, discipline))
    assert isinstance(step, ControlledStep)
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
            VariableStrategy(each.name, (ParameterServer("node0/cpu:1"),)) for each in session.model.variables
        )
        plain = session.realize(Strategy(tuple(map(str, FOUR.replica_devices)), variables))
        step = told("own, a server", (0.1, 1.0))
        for number, given in enumerate(batches()):
            step.take(number, Decision(ratio=1), given)
            plain.on(given)
        for name, value in step.values().items():
            assert value.tobytes() == plain.values()[name].tobytes(), name

    def test_it_is_told_where_it_is_found_out_who_is_late(self) -> None:
        discipline = Discipline(waits=CutOff(4), fidelity=Fidelity(RATIOS, 2))
        step = session_on("dense", "momentum", FOUR).realize(strategy_of("star, ring", 0.5, discipline))
        assert isinstance(step, ControlledStep)
        assert isinstance(step.step, FirstStep)
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
        values = [each.value for each in task.model.trainable_variables]
        layout = [each.shards for each in (*step.placed.buckets, *step.placed.servers)]
        names = [each.path for each in task.model.trainable_variables]
        for replica, found in enumerate(report.energies):
            gradient = dict(zip(names, (each.numpy() for each in gradients_of(values, given[replica])[1]), strict=True))
            squares = [
                np.sort(np.concatenate([gradient[each.variable.name].reshape(-1) for each in shards]) ** 2)[::-1]
                for shards in layout
            ]
            whole = sum(float(each.sum()) for each in squares)
            for ratio, share in zip(RATIOS, found, strict=True):
                kept = sum(float(each[: TopK.count(ratio, len(each))].sum()) for each in squares)
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
    for each in given:
        whole.on(each)
    for each in given[:3]:
        first.on(each)
    second.load(first.state())
    for each in given[3:]:
        second.on(each)
    assert_same(second, whole)


def test_top_k_counts_like_its_ratio() -> None:
    assert [TopK.count(each, 10) for each in (0.01, 0.1, 0.11, 1.0)] == [1, 1, 2, 10]
    assert TopK(0.3).kept(10) == 3
