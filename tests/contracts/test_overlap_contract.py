"""The contract of steps that overlap with the next forward pass: one call takes several, and the bits are the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.core.step_state import StepState
from autosync.engine.tensorflow.step.prefetched_durations import STEPS_AHEAD
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.errors import SpecError
from autosync.spec import Strategy
from tests.contracts.parity import session_on
from tests.contracts.test_pace_contract import FOUR_WORKERS, paced_session
from tests.contracts.ways import ALONE, COMPRESSED, ROUNDED

WAYS = ALONE | ROUNDED | COMPRESSED
STEPS, A_CALL = 12, 4


def realized(session: Any, way: str, overlaps: bool = True) -> SynchronousStep:
    strategy: Strategy = replace(WAYS[way](session.model, session.cluster), overlap_next_forward=overlaps)
    step = session.realize(strategy)
    assert isinstance(step, SynchronousStep)
    return step


def arrays(state: StepState) -> Iterator[bytes]:
    """Every array of a step's state."""
    return (np.asarray(leaf).tobytes() for leaf in tf.nest.flatten(vars(state)))


@pytest.mark.quick("shards of both kinds-table-*", "one server-*", "every algorithm-*", "PowerSGD, ring-*")
@pytest.mark.parametrize(
    ("way", "task", "optimizer"),
    [
        ("one server", "pooled", "Nadam"),
        ("servers in turn", "normalized", "momentum"),
        ("servers, first axis cut finely", "table", "Adam"),
        ("a ring a variable", "two dtypes", "momentum"),
        ("rings, sparse on servers", "two inputs", "Adagrad"),
        ("every algorithm", "dense", "AdamW"),
        ("a collective a variable", "convolution", "Adam"),
        ("shards of both kinds", "table", "scheduled"),
        ("shards of both kinds", "recurrent", "SGD"),
        ("fp16, every algorithm", "tied", "momentum"),
        ("top-k, star, tree", "dense", "Adam"),
        ("PowerSGD, ring", "sequence", "momentum"),
    ],
)
def test_after_twelve_steps_the_whole_state_has_the_bits_of_single_steps(way: str, task: str, optimizer: str) -> None:
    session = session_on(task, optimizer, FOUR_WORKERS)
    single, overlapped = realized(session, way, overlaps=False), realized(session, way)
    losses = [loss for _ in range(STEPS // A_CALL) for loss in overlapped.several(A_CALL)]
    assert losses == [single() for _ in range(STEPS)]
    assert len(set(losses)) == STEPS
    assert list(arrays(overlapped.state())) == list(arrays(single.state()))
    for replica in range(4):
        other = single.values(replica)
        assert all(value.tobytes() == other[name].tobytes() for name, value in overlapped.values(replica).items())


@pytest.mark.parametrize("numbers", ["held", "recorded"])
def test_paced_steps_of_a_call_have_the_draws_and_bits_of_single_steps(numbers: str) -> None:
    session = paced_session("table", "Adam", numbers)
    single, overlapped = (realized(session, "shards of both kinds", overlaps) for overlaps in (False, True))
    single.seed = overlapped.seed = 3
    losses = [loss for _ in range(3) for loss in overlapped.several(2)]
    assert losses == [single() for _ in range(6)]
    assert list(arrays(overlapped.state())) == list(arrays(single.state()))
    assert [taken.seconds.tolist() for taken in overlapped.taken] == [taken.seconds.tolist() for taken in single.taken]
    late = np.array([taken.late for taken in overlapped.taken])
    assert late.shape == np.array([taken.late for taken in single.taken]).shape
    assert (late >= 0).all()


def test_a_call_at_the_end_of_the_drawn_steps_has_durations_for_all_of_its_steps() -> None:
    step = realized(paced_session("dense", "SGD", "recorded"), "one ring")
    assert step._durations is not None
    step._durations.prepare(0, 0, STEPS_AHEAD - 1)
    step._durations._left = 1  # as after that many steps
    step.several(2)
    drawn = [passes.seconds for passes in step.taken]
    np.testing.assert_array_equal(drawn, [step._pacing.seconds(0, number) for number in range(2)])


def ancestors(operation: Any) -> set[Any]:
    """All operations that run before `operation` in its graph."""
    found, waiting = set(), [operation]
    while waiting:
        taken = waiting.pop()
        before = {*taken.control_inputs, *(tensor.op for tensor in taken.inputs)} - found
        found |= before
        waiting += before
    return found


def test_a_read_waits_for_its_own_update_alone() -> None:
    """The second step's reads of a server's values and of their copies follow no update of other values."""
    step = realized(session_on("dense", "momentum", FOUR_WORKERS), "servers in turn")
    step.several(2)
    graph = step._calls[2].get_concrete_function().graph
    names = {id(outer): internal.name for outer, internal in graph.captures}
    held = {
        names[id(variable.handle)]
        for server in step.placed.servers
        for variable in (server.block.value, *(server.copies.variables.values() if server.copies else ()))
    }
    assert len(held) > len(step.placed.servers) > 1
    writes = {
        operation: operation.inputs[0].name
        for operation in graph.get_operations()
        if operation.type == "AssignVariableOp" and operation.inputs[0].name in held
    }
    for name in held:
        reads = [
            consumer for consumer in graph.get_tensor_by_name(name).consumers() if consumer.type == "ReadVariableOp"
        ]
        updated = [{writes[before] for before in ancestors(read) if before in writes} for read in reads]
        assert set().union(*updated) == {name}


def test_overlap_is_refused_where_all_gradients_come_before_any_update() -> None:
    with pytest.raises(SpecError, match="because the optimizer's clipping or loss scaling needs all gradients"):
        realized(session_on("dense", "clipped", FOUR_WORKERS), "one ring")


def test_overlap_is_refused_where_time_is_kept_between_steps() -> None:
    held = paced_session("dense", "SGD", "held")
    session = TensorFlowSession(held.captured, held.cluster, held.placement, exchange=lambda *_: 0.001)
    with pytest.raises(SpecError, match="because streams and virtual time are kept between two steps"):
        realized(session, "one ring")
