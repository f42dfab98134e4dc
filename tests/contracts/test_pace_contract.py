"""The pace contract: a paced step computes the same as an unpaced one, to the bit if held, and draws need one trace.

Passes take a few milliseconds here. The lateness of releases is measured elsewhere, not tested.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tensorflow as tf

from autosync.baselines.ddp import under_ddp
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.prefetched_durations import STEPS_AHEAD
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.errors import SpecError
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    DDPSettings,
    DeviceProfile,
    ModelProfile,
    Pace,
    Slow,
    Spread,
    Strategy,
    SufficientFactors,
    Variable,
    VariableStrategy,
)
from tests.cases import local_cluster
from tests.contracts.parity import captured_task, reference, session_on
from tests.contracts.ways import ALONE

FOUR_WORKERS = local_cluster(4)
VARIED = Spread(0.2, Slow(0.5, 2, 2.0))


def paced_like(cluster: ClusterSpec, pace: Pace) -> ClusterSpec:
    return replace(cluster, nodes=tuple(replace(node, pace=pace) for node in cluster.nodes))


@cache
def paced_session(task: str, optimizer: str, numbers: str, cluster: ClusterSpec = FOUR_WORKERS) -> TensorFlowSession:
    """A session in which passes take about 6 ms, and variables become ready one after another."""
    captured = captured_task(task, optimizer)
    count = len(captured.spec.variables)
    ready = {variable.name: (variable.ready_order + 1) / count for variable in captured.spec.variables}
    captured = replace(captured, spec=replace(captured.spec, profile=ModelProfile(0.001, 0.002, ready)))
    cluster = paced_like(cluster, Pace(1.0, 0.003, numbers, VARIED))
    return TensorFlowSession(captured, cluster, Placement.in_one_process(cluster))


def both(task: str, optimizer: str, way: str, numbers: str) -> tuple[SynchronousStep, SynchronousStep]:
    paced, plain = paced_session(task, optimizer, numbers), session_on(task, optimizer, FOUR_WORKERS)
    steps = [run.realize(ALONE[way](run.model, run.cluster)) for run in (paced, plain)]
    assert isinstance(steps[0], SynchronousStep)
    assert isinstance(steps[1], SynchronousStep)
    return steps[0], steps[1]


def test_held_numbers_are_those_of_given_batches_and_a_pass_takes_by_its_examples() -> None:
    held, plain = both("table", "momentum", "two rings", "held")
    weights = [0.25, 1.25, 1.25, 1.25]
    for batches in reference("table", "momentum", 4).batches:
        assert held.on(batches, weights) == plain.on(batches, weights)
    first, other = held.values(), plain.values()
    assert all(first[name].tobytes() == other[name].tobytes() for name in other)
    whole = held._pacing.seconds(0, 0)
    np.testing.assert_array_equal(held.taken[0].seconds, whole)
    np.testing.assert_allclose(held._pacing.seconds(0, 0, [0.6, 1, 1, 1]) / whole, [(3 + 3 * 0.6) / 6, 1, 1, 1])


@pytest.mark.parametrize("numbers", ["held", "recorded"])
def test_what_a_pass_takes_is_drawn_anew_each_step_and_nothing_is_traced_again(numbers: str) -> None:
    step, _ = both("table", "Adam", "one ring", numbers)
    step.seed = 5
    for _ in range(6):
        step()
    drawn = np.array([passes.seconds for passes in step.taken])
    assert drawn.shape == (6, 4)
    np.testing.assert_array_equal(drawn, [step._pacing.seconds(5, number) for number in range(6)])
    assert len(np.unique(drawn)) == drawn.size
    assert step._own_batches.experimental_get_tracing_count() == 1
    late = np.array([passes.late for passes in step.taken])
    assert late.shape == (6, 4, len(step._pacing.releases))
    assert (late >= 0).all()


def test_passes_are_drawn_for_steps_ahead_and_anew_whenever_another_step_comes_next() -> None:
    step, _ = both("dense", "SGD", "one ring", "held")
    expected = []

    def goes_on(steps: int) -> None:
        for _ in range(steps):
            expected.append(step._pacing.seconds(step.seed, len(step.taken)))
            step()

    goes_on(STEPS_AHEAD + 2)
    step.seed = 7
    goes_on(2)
    expected.append(step._pacing.seconds(7, len(step.taken)))
    step.on(reference("dense", "SGD", 4).batches[0])
    goes_on(2)
    np.testing.assert_array_equal([passes.seconds for passes in step.taken], expected)
    assert step._own_batches.experimental_get_tracing_count() == 1


def test_nothing_is_sent_from_the_client_to_a_paced_step() -> None:
    """The step's arguments are variables of the workers, and only its results go to the client."""
    step, plain = both("dense", "SGD", "one ring", "recorded")
    for function in (step._own_batches, plain._own_batches):
        concrete = function.get_concrete_function()
        assert [tensor.dtype for tensor in concrete.inputs if tensor.dtype != tf.resource] == []


def floats_between_devices(step: SynchronousStep) -> Counter[tuple[str, str, tuple[int, ...]]]:
    """Count the float32 tensors that cross between devices, by the shape of their rows.

    The number of rows is left out, because steps touch different numbers. Losses, alone or in a report, do not count.
    """
    function = step._own_batches
    crossing = {
        (tensor.name, operation.device): (tensor.op.device, operation.device, tuple(tensor.shape))
        for operation in function.get_concrete_function().graph.get_operations()
        for tensor in operation.inputs
        if tensor.dtype == tf.float32 and tensor.op.device and operation.device
    }
    return Counter(
        (source, target, shape[1:]) for source, target, shape in crossing.values() if source != target and shape
    )


@pytest.mark.parametrize("numbers", ["held", "recorded"])
@pytest.mark.parametrize("way", ["one server", "one server, local copies", "a ring a variable", "two rings"])
def test_a_paced_step_sends_what_an_unpaced_one_sends(way: str, numbers: str) -> None:
    paced, plain = both("pooled", "SGD", way, numbers)
    assert floats_between_devices(plain)
    assert floats_between_devices(paced) == floats_between_devices(plain)


def _by_factors(variable: Variable) -> AllReduce:
    return AllReduce(1, compressor=SufficientFactors()) if variable.factor_rows else AllReduce(0)


def test_recorded_factors_are_replayed_too() -> None:
    session = paced_session("dense", "SGD", "recorded")
    devices = tuple(str(device) for device in session.cluster.replica_devices)
    factored = tuple(VariableStrategy(variable.name, (_by_factors(variable),)) for variable in session.model.variables)
    whole = tuple(VariableStrategy(variable.name, (AllReduce(0),)) for variable in session.model.variables)
    assert any(variable.factor_rows for variable in session.model.variables)
    steps = [session.realize(Strategy(devices, variables)) for variables in (factored, whole)]
    assert steps[0]() == steps[1]()
    for name, value in steps[1].values().items():
        np.testing.assert_allclose(steps[0].values()[name], value, atol=1e-6)


def test_an_unpaced_step_waits_for_nothing() -> None:
    _, plain = both("dense", "SGD", "one ring", "held")
    kinds = {operation.type for operation in plain._own_batches.get_concrete_function().graph.get_operations()}
    assert not {kind for kind in kinds if "PyFunc" in kind}


def test_passes_follow_another_devices_profile_where_the_model_has_one() -> None:
    captured, cluster = captured_task("dense", "SGD"), paced_like(FOUR_WORKERS, Pace(2.0, 0.0))
    spec = captured.spec
    ready = {variable.name: 0.002 if variable.ready_order else 0.001 for variable in spec.variables}
    versions = {"tensorflow": tf.__version__}
    device = DeviceProfile("H100", versions, spec.batch_size, "float32", "2026-11-20", 0.002, 0.002, ready)
    captured = replace(captured, spec=replace(spec, device_profile=device))
    session = TensorFlowSession(captured, cluster, Placement.in_one_process(cluster))
    step = session.realize(ALONE["one ring"](session.model, session.cluster))
    step()
    assert isinstance(step, SynchronousStep)
    np.testing.assert_allclose(step.taken[0].seconds, [0.008] * 4)
    assert [(release.fraction, len(release.variables)) for release in step._pacing.releases] == [
        (0.75, 1),
        (1.0, len(spec.variables) - 1),
    ]


def test_what_cannot_be_paced_is_refused_in_a_sentence() -> None:
    session = paced_session("dense", "SGD", "recorded")
    served = ALONE["one server"](session.model, session.cluster)
    with pytest.raises(SpecError, match="Recorded gradients repeat and train nothing"):
        session.realize(served).on(reference("dense", "SGD", 4).batches[0])
    stale = replace(
        served,
        variables=tuple(
            replace(variable, shards=tuple(replace(s, staleness=1, local_copy=False) for s in variable.shards))
            for variable in served.variables
        ),
    )
    with pytest.raises(SpecError, match="A paced cluster needs synchronous steps"):
        session.realize(stale)
    with pytest.raises(SpecError, match="DistributedDataParallel carries out this strategy; add --framework pytorch"):
        session.realize(under_ddp(session.model, session.cluster, DDPSettings()))
    first, *others = served.variables
    with pytest.raises(SpecError, match="because its profile has no lookup of rows"):
        session.realize(replace(served, variables=(replace(first, rows_apart=True), *others)))
    bare = TensorFlowSession(captured_task("dense", "SGD"), session.cluster, session.placement)
    with pytest.raises(SpecError, match="Paced passes need a model's profile, but 'dense' has none"):
        bare.realize(served)
