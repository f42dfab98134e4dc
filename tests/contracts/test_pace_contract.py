"""The pace contract: a paced step does what an unpaced one does, held numbers are its bits, and draws are traced once.

Passes are a few milliseconds here: how well deadlines are kept is measured, not tested.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.placement import Placement
from autosync.engine.step.ahead import STEPS_AHEAD
from autosync.engine.step.paced import PacedStep
from autosync.engine.step.realize import Session, Step
from autosync.errors import SpecError
from autosync.spec import (
    AllReduce,
    ClusterSpec,
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
def paced_session(task: str, optimizer: str, numbers: str, cluster: ClusterSpec = FOUR_WORKERS) -> Session:
    """A session in which passes take some 6 ms, and variables are ready one after the other."""
    captured = captured_task(task, optimizer)
    count = len(captured.spec.variables)
    ready = {each.name: (each.ready_order + 1) / count for each in captured.spec.variables}
    captured = replace(captured, spec=replace(captured.spec, profile=ModelProfile(0.001, 0.002, ready)))
    cluster = paced_like(cluster, Pace(1.0, 0.003, numbers, VARIED))
    return Session(captured, cluster, Placement.in_one_process(cluster))


def both(task: str, optimizer: str, way: str, numbers: str) -> tuple[PacedStep, Step]:
    paced, plain = paced_session(task, optimizer, numbers), session_on(task, optimizer, FOUR_WORKERS)
    steps = [each.realize(ALONE[way](each.model, each.cluster)) for each in (paced, plain)]
    assert isinstance(steps[0], PacedStep)
    assert isinstance(steps[1], Step)
    return steps[0], steps[1]


@pytest.mark.quick("one server, local copies", "servers, first axis cut", "two rings", "shards of both kinds")
@pytest.mark.parametrize("way", ALONE)
def test_held_numbers_are_to_the_bit_those_of_an_unpaced_step(way: str) -> None:
    held, plain = both("table", "Adam", way, "held")
    for _ in range(3):
        assert held() == plain()
    for replica in range(4):
        expected = plain.values(replica)
        assert {name: each.tobytes() for name, each in held.values(replica).items()} == {
            name: each.tobytes() for name, each in expected.items()
        }


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
    drawn = np.array([each.seconds for each in step.taken])
    assert drawn.shape == (6, 4)
    np.testing.assert_array_equal(drawn, [step._pacing.seconds(5, number) for number in range(6)])
    assert len(np.unique(drawn)) == drawn.size
    assert step._own.experimental_get_tracing_count() == 1
    late = np.array([each.late for each in step.taken])
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
    np.testing.assert_array_equal([each.seconds for each in step.taken], expected)
    assert step._own.experimental_get_tracing_count() == 1


def test_nothing_is_sent_from_the_client_to_a_paced_step() -> None:
    """Its arguments are variables of the workers; what it gives goes to the client."""
    step, plain = both("dense", "SGD", "one ring", "recorded")
    for function in (step._own, plain._own_batches):
        concrete = function.get_concrete_function()
        assert [each.dtype for each in concrete.inputs if each.dtype != tf.resource] == []


def floats_between_devices(step: Step | PacedStep) -> Counter[tuple[str, str, tuple[int, ...]]]:
    """How many float32 tensors go from one device to another, by the shape of their rows, of which steps touch now more
    now fewer; a loss alone, or in a report, is none.
    """
    function = step._own if isinstance(step, PacedStep) else step._own_batches
    crossing = {
        (tensor.name, operation.device): (tensor.op.device, operation.device, tuple(tensor.shape))
        for operation in function.get_concrete_function().graph.get_operations()
        for tensor in operation.inputs
        if tensor.dtype == tf.float32 and tensor.op.device and operation.device
    }
    return Counter((one, other, shape[1:]) for one, other, shape in crossing.values() if one != other and shape)


@pytest.mark.parametrize("numbers", ["held", "recorded"])
@pytest.mark.parametrize("way", ["one server", "one server, local copies", "a ring a variable", "two rings"])
def test_a_paced_step_sends_what_an_unpaced_one_sends(way: str, numbers: str) -> None:
    paced, plain = both("pooled", "SGD", way, numbers)
    assert floats_between_devices(plain)
    assert floats_between_devices(paced) == floats_between_devices(plain)


@pytest.mark.parametrize("way", ["one server", "servers, first axis cut", "two rings", "rings, sparse on servers"])
def test_recorded_gradients_are_those_of_the_first_real_steps_at_the_initial_values(way: str) -> None:
    """With SGD two recorded steps move every value by the sum of what each alone would move it by."""
    recorded, plain = both("table", "SGD", way, "recorded")
    first, start = plain.state(), plain.values()
    moved = {name: np.zeros_like(each) for name, each in start.items()}
    losses = []
    for number in range(2):
        plain.load(replace(first, replica_steps=(number,) * 4))
        losses.append(plain())
        for name, each in plain.values().items():
            moved[name] += each - start[name]
    assert [recorded() for _ in range(3)] == [*losses, losses[0]]
    recorded.load(first)
    recorded(), recorded()
    for name, each in recorded.values().items():
        np.testing.assert_allclose(each, start[name] + moved[name], atol=2e-6)


def _by_factors(variable: Variable) -> AllReduce:
    return AllReduce(1, compressor=SufficientFactors()) if variable.factor_rows else AllReduce(0)


def test_recorded_factors_are_replayed_too() -> None:
    session = paced_session("dense", "SGD", "recorded")
    devices = tuple(str(each) for each in session.cluster.replica_devices)
    factored = tuple(VariableStrategy(each.name, (_by_factors(each),)) for each in session.model.variables)
    whole = tuple(VariableStrategy(each.name, (AllReduce(0),)) for each in session.model.variables)
    assert any(each.factor_rows for each in session.model.variables)
    steps = [session.realize(Strategy(devices, variables)) for variables in (factored, whole)]
    assert steps[0]() == steps[1]()
    for name, each in steps[1].values().items():
        np.testing.assert_allclose(steps[0].values()[name], each, atol=1e-6)


def test_an_unpaced_step_waits_for_nothing() -> None:
    _, plain = both("dense", "SGD", "one ring", "held")
    kinds = {each.type for each in plain._own_batches.get_concrete_function().graph.get_operations()}
    assert not {kind for kind in kinds if "PyFunc" in kind}


def test_passes_follow_another_devices_profile_where_the_model_has_one() -> None:
    captured, cluster = captured_task("dense", "SGD"), paced_like(FOUR_WORKERS, Pace(2.0, 0.0))
    spec = captured.spec
    ready = {each.name: 0.002 if each.ready_order else 0.001 for each in spec.variables}
    versions = {"tensorflow": tf.__version__}
    device = DeviceProfile("H100", versions, spec.batch_size, "float32", "2026-11-20", 0.002, 0.002, ready)
    captured = replace(captured, spec=replace(spec, device_profile=device))
    session = Session(captured, cluster, Placement.in_one_process(cluster))
    step = session.realize(ALONE["one ring"](session.model, session.cluster))
    step()
    assert isinstance(step, PacedStep)
    np.testing.assert_allclose(step.taken[0].seconds, [0.008] * 4)
    assert [(each.fraction, len(each.variables)) for each in step._pacing.releases] == [
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
            replace(each, shards=tuple(replace(s, staleness=1, local_copy=False) for s in each.shards))
            for each in served.variables
        ),
    )
    with pytest.raises(SpecError, match="On a paced cluster steps are synchronous"):
        session.realize(stale)
    bare = Session(captured_task("dense", "SGD"), session.cluster, session.placement)
    with pytest.raises(SpecError, match="Passes are paced by a model's profile, but 'dense' has none"):
        bare.realize(served)
