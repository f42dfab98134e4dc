"""A step's state: read as arrays, put back, and gone on from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosync.errors import SpecError
from tests.cases import local_cluster
from tests.contracts.parity import reference, session_on
from tests.contracts.ways import ALONE

CLUSTER = local_cluster(4)
OTHER_WAYS = ("one server", "servers, last axis cut", "two rings", "shards of both kinds")


@pytest.mark.quick("one server", "two rings")
@pytest.mark.parametrize("way", OTHER_WAYS)
def test_training_goes_on_from_a_saved_state_to_the_bit(way):
    session = session_on("pooled", "Adam", CLUSTER)
    batches = reference("pooled", "Adam", 4).batches
    step = session.realize(ALONE[way](session.model, CLUSTER))
    for each in batches[:2]:
        step.on(each)
    saved = step.state()
    for each in batches[2:]:
        step.on(each)
    again = session.realize(step.strategy)
    again.load(saved)
    for each in batches[2:]:
        again.on(each)
    for replica in (0, 3):
        for name, value in again.values(replica).items():
            assert value.tobytes() == step.values(replica)[name].tobytes()
    assert [len(each) for each in saved.slots.values()] == [2] * len(saved.values)
    assert {name: each[0].shape for name, each in saved.slots.items()} == {
        name: each.shape for name, each in saved.values.items()
    }


def test_values_and_slots_mean_the_same_under_another_strategy():
    session = session_on("table", "momentum", CLUSTER)
    batches = reference("table", "momentum", 4).batches
    first = session.realize(ALONE["two rings"](session.model, CLUSTER))
    for each in batches[:2]:
        first.on(each)
    second = session.realize(ALONE["servers, first axis cut"](session.model, CLUSTER))
    second.load(first.state())
    for step in (first, second):
        step.on(batches[2])
    for name, value in first.values().items():
        np.testing.assert_allclose(second.values()[name], value, rtol=1e-5, atol=1e-7)


def test_a_resumed_step_draws_the_batches_that_come_next():
    session = session_on("dense", "SGD", CLUSTER)
    step, again = (session.realize(ALONE["one ring"](session.model, CLUSTER)) for _ in range(2))
    step()
    again.load(step.state())
    assert again() == step()


def test_a_state_of_another_model_or_strategy_is_refused():
    session = session_on("dense", "SGD", CLUSTER)
    step = session.realize(ALONE["one ring"](session.model, CLUSTER))
    state = step.state()
    with pytest.raises(SpecError, match=r"it has 0 variables and 4 replicas where 7 and 4 are wanted\."):
        step.load(replace(state, values={}))
    with pytest.raises(SpecError, match="compressors or loss scaling fits the strategy it was saved with only"):
        step.load(replace(state, synchronizer_state=(np.zeros(3),)))
