"""The contract of reports: a step's report on its replicas is correct, and reporting changes no bit of training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosync.engine.core.control_loop import ControlLoop
from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.decided import DecidedStep
from autosync.engine.tensorflow.step.k_sync import KSyncStep
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.errors import SpecError
from autosync.spec import (
    CutOff,
    Decision,
    Discipline,
    ModelProfile,
    Pace,
    Rhythm,
    StepReport,
    Strategy,
    SufficientFactors,
)
from tests.cases import local_cluster
from tests.contracts.compressed_training import backward
from tests.contracts.parity import captured_task, reference, session_on
from tests.contracts.test_cut_off_contract import Script
from tests.contracts.test_pace_contract import paced_like
from tests.contracts.ways import ALONE

FOUR = local_cluster(4)
WAYS = ("one server", "servers, first axis cut", "two rings", "every algorithm", "one collective")
NORMS = Decision(norms=True)


def decided(task: str, optimizer: str, strategy: Strategy) -> DecidedStep:
    """Steps of a plain strategy that are decided one by one."""
    session = session_on(task, optimizer, FOUR)
    step = session.realize(strategy)
    assert isinstance(step, SynchronousStep)
    return DecidedStep(session._model, step.placed)


def stepping(way: str, task: str, optimizer: str) -> DecidedStep:
    session = session_on(task, optimizer, FOUR)
    return decided(task, optimizer, ALONE[way](session.model, FOUR))


def expected(batches: Sequence[Any], weights: Sequence[float]) -> tuple[list[float], list[float], float]:
    """Compute the replicas' losses and squared norms in the first step of "double", and the weighted mean's norm."""
    task, _, gradients_of = backward("double")
    values = [variable.value for variable in task.model.trainable_variables]
    found = [gradients_of(values, own) for own in batches]
    flat = [np.concatenate([np.ravel(gradient.numpy()) for gradient in gradients]) for _, gradients in found]
    mean = sum(own * weight for own, weight in zip(flat, weights, strict=True)) / len(flat)
    return [float(loss) for loss, _ in found], [float(own @ own) for own in flat], float(mean @ mean)


class TestWhatIsTold:
    @pytest.mark.parametrize("weights", [None, (0.6, 2.2, 1.2, 0.0)], ids=["alike", "weighed"])
    @pytest.mark.quick("one server-alike", "two rings-weighed")
    @pytest.mark.parametrize("way", WAYS)
    def test_are_losses_and_norms_of_every_replica_and_the_norm_of_their_mean(
        self, way: str, weights: tuple[float, ...] | None, tally: Any
    ) -> None:
        batches = reference("double", "SGD", 4).batches[0]
        report: StepReport = stepping(way, "double", "SGD").take(0, NORMS, batches, weights)
        losses, norms, mean = expected(batches, weights or (1.0,) * 4)
        for number in range(4):
            if weights and not weights[number]:
                assert report.losses[number] is report.square_norms[number] is report.examples[number] is None
                continue
            assert report.losses[number] == pytest.approx(losses[number], rel=1e-6)  # a weight is a float32
            assert report.square_norms[number] == pytest.approx(norms[number], rel=1e-6)
            assert report.examples[number] == len(batches[number][0])
        assert report.mean_square_norm == pytest.approx(mean, rel=1e-6)
        tally("reports", abs((report.mean_square_norm or math.nan) / mean - 1))

    def test_are_none_of_a_replica_that_came_too_late(self) -> None:
        session = session_on("double", "SGD", FOUR)
        waiting = replace(ALONE["two rings"](session.model, FOUR), discipline=Discipline(waits=CutOff(3)))
        step = session.realize(waiting).step  # type: ignore[union-attr]
        assert isinstance(step, KSyncStep)
        step._pause = Script([(0, 1, 3)])
        batches = reference("double", "SGD", 4).batches[0]
        report = step.take(0, Decision(first=3, norms=True), batches)
        step._pause.let_go(0)
        losses, norms, mean = expected(batches, (4 / 3, 4 / 3, 0.0, 4 / 3))
        assert report.losses[2] is report.square_norms[2] is report.examples[2] is report.arrivals[2] is None
        for number in (0, 1, 3):
            assert report.losses[number] == pytest.approx(losses[number], rel=1e-6)
            assert report.square_norms[number] == pytest.approx(norms[number], rel=1e-6)
        assert report.mean_square_norm == pytest.approx(mean, rel=1e-6)
        step.close()

    def test_has_no_norms_that_nobody_asked_for(self) -> None:
        report = stepping("two rings", "table", "SGD").take(0, Decision(), reference("table", "SGD", 4).batches[0])
        assert report.square_norms == ()
        assert report.mean_square_norm is None
        assert all(math.isfinite(loss) for loss in report.losses)

    def test_has_arrivals_wherever_passes_are_paced(self) -> None:
        session = paced_session(captured_task("double", "SGD"))
        meeting = Discipline(Rhythm(1, averages="gradients"))
        step = session.realize(replace(ALONE["two rings"](session.model, FOUR), discipline=meeting))
        assert isinstance(step, ControlLoop)
        step()
        assert step.report is not None
        np.testing.assert_allclose(step.report.arrivals, [0.01] * 4)
        assert step.report.seconds is not None
        assert step.report.seconds >= 0.01

    def test_under_loss_scaling_is_refused(self) -> None:
        step = stepping("two rings", "pooled", "scaled")
        with pytest.raises(SpecError, match="loss scaling"):
            step.take(0, NORMS, reference("pooled", "scaled", 4).batches[0])


@pytest.mark.quick("one server-momentum", "every algorithm-clipped")
@pytest.mark.parametrize("optimizer", ["momentum", "Adam", "clipped"])
@pytest.mark.parametrize("way", WAYS)
def test_telling_norms_changes_no_bit(way: str, optimizer: str) -> None:
    telling, silent = (stepping(way, "table", optimizer) for _ in range(2))
    for number, batches in enumerate(reference("table", optimizer, 4).batches):
        telling.take(number, NORMS, batches)
        silent.take(number, Decision(), batches)
    for replica in range(4):
        for name, value in telling.values(replica).items():
            assert value.tobytes() == silent.values(replica)[name].tobytes(), name


def test_the_norm_of_a_gradient_that_is_sent_as_factors_is_that_of_their_product() -> None:
    session = session_on("dense", "SGD", FOUR)
    whole = ALONE["two rings"](session.model, FOUR)
    batches = reference("dense", "SGD", 4).batches[0]
    reports = []
    for strategy in (whole, in_factors(whole)):
        reports.append(decided("dense", "SGD", strategy).take(0, NORMS, batches))
    assert reports[1].square_norms == pytest.approx(reports[0].square_norms, rel=1e-5)
    assert reports[1].mean_square_norm == pytest.approx(reports[0].mean_square_norm, rel=1e-5)


def in_factors(strategy: Strategy) -> Strategy:
    """Send every kernel's gradient as factors."""
    variables = tuple(
        replace(
            variable, shards=tuple(replace(shard, compressor=SufficientFactors(), group=9) for shard in variable.shards)
        )
        if variable.variable.endswith("kernel")
        else variable
        for variable in strategy.variables
    )
    assert variables != strategy.variables
    return replace(strategy, variables=variables)


def paced_session(model: CapturedModel) -> TensorFlowSession:
    ready = {variable.name: 1.0 for variable in model.spec.variables}
    paced = replace(model, spec=replace(model.spec, profile=ModelProfile(0.005, 0.005, ready)))
    cluster = paced_like(FOUR, Pace(1.0, 0.0, "held"))
    return TensorFlowSession(paced, cluster, Placement.in_one_process(cluster))
