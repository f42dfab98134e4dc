"""Top-k exchanges step by step: the choice of elements, the unsent rest, and the result on all replicas."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from autosync.spec import TopK
from tests.engine.exchanges import BucketSteps, ServerSteps

INDICES = ("own", "star", "var")


def _row(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def _same(means: list[np.ndarray]) -> np.ndarray:
    """Return the mean after checking that all replicas have the same bytes."""
    assert len({mean.tobytes() for mean in means}) == 1
    return means[0]


def test_what_was_not_sent_is_added_to_the_next_gradient():
    step = BucketSteps(TopK(0.25), [(4,)], 1)
    assert _same(step([[_row(3, -4, 1, 2)]])).tolist() == [0, -4, 0, 0]
    assert _same(step([[_row(1, 1, 1, 3)]])).tolist() == [0, 0, 0, 5]
    assert _same(step([[_row(0, 0, 0, 0)]])).tolist() == [4, 0, 0, 0]


def test_of_equal_magnitudes_the_first_places_are_sent():
    step = BucketSteps(TopK(0.5), [(6,)], 2)
    assert _same(step([[_row(1, -1, 1, -1, 1, -1)], [_row(0, 0, 2, 2, 2, 2)]])).tolist() == [0.5, -0.5, 1.5, 1, 1, 0]


def test_a_bucket_is_one_array_of_which_the_largest_elements_of_any_shard_are_sent():
    step = BucketSteps(TopK(0.25), [(2, 2), (), (3,)], 1)
    gradients = [np.full((2, 2), 0.5, np.float32), np.float32(-7), _row(0, 8, 1)]
    assert _same(step([gradients])).tolist() == [0, 0, 0, 0, -7, 0, 8, 0]


@pytest.mark.parametrize("indices", INDICES)
def test_a_bucket_of_one_element_travels_whole(indices):
    step = BucketSteps(TopK(0.01, indices), [()], 3)
    assert _same(step([[np.float32(1)], [np.float32(2)], [np.float32(6)]])).tolist() == [3]


def test_each_replica_in_turn_chooses_the_places_of_all():
    step = BucketSteps(TopK(0.3, "star"), [(3,)], 3)
    gradients = [[_row(9, 1, 1)], [_row(1, 9, 1)], [_row(1, 1, 9)]]
    for turn in (0, 1, 2, 0):
        mean = _same(step(gradients))
        assert np.flatnonzero(mean).tolist() == [turn]


def test_the_replica_with_the_largest_values_chooses_and_of_equal_ones_the_first():
    step = BucketSteps(TopK(0.3, "var"), [(3,)], 3)
    assert _same(step([[_row(2, 0, 0)], [_row(0, 0, -9)], [_row(0, 3, 0)]])).tolist() == [0, 0, -3]
    # Now 2, 0 and 3 are unsent; with the new gradients the first and the last replica both have 3.
    assert _same(step([[_row(1, 0, 0)], [_row(0, 0, 0)], [_row(0, 0, 0)]])).tolist() == [1, 0, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("indices", INDICES)
def test_a_number_that_is_not_finite_reaches_all_and_a_step_that_is_not_allowed_leaves_no_trace(indices, bad):
    step = BucketSteps(TopK(0.25, indices), [(4,)], 3)
    step([[_row(1, 2, 3, 4)], [_row(5, 6, 7, 8)], [_row(9, 8, 7, 6)]])
    before = step.remembered()
    mean = _same(step([[_row(1, 2, 3, 4)], [_row(5, 6, 7, 8)], [_row(9, bad, 7, 6)]], allowed=False))
    assert not np.isfinite(mean).all()
    for ours, theirs in zip(step.remembered(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_waits_follows_the_loss_scale_and_whose_turn_it_is_does_not():
    step = BucketSteps(TopK(0.5, "star"), [(2,)], 2)
    step([[_row(4, 1)], [_row(4, 3)]], growth=2.0)
    first, second, *turns = step.remembered()
    assert (first.tolist(), second.tolist(), [int(turn) for turn in turns]) == ([0, 2], [0, 6], [1, 1])


def test_a_server_gets_the_mean_of_what_each_replica_chose():
    step = ServerSteps(TopK(0.5), (2, 2), 2)
    assert step([_row(1, 2, 3, 4).reshape(2, 2), _row(8, 0, 6, 0).reshape(2, 2)]).tolist() == [4, 0, 4.5, 2]
    assert step([np.zeros((2, 2), np.float32)] * 2).tolist() == [0.5, 1, 0, 0]


@pytest.mark.parametrize("indices", ["star", "var"])
def test_places_cross_between_replicas_only_from_the_one_that_chose(indices):
    step = BucketSteps(TopK(0.1, indices), [(40,)], 3)
    given = [[tf.zeros([40])] for _ in range(3)]
    graph = step.traced.get_concrete_function(given, tf.constant(True), tf.constant(1.0)).graph
    crossing = [
        tensor
        for operation in graph.get_operations()
        for tensor in operation.inputs
        if tensor.op.device and operation.device and tensor.op.device != operation.device
    ]
    places = [tensor for tensor in crossing if tensor.dtype == tf.int32]
    assert len(places) == 3 * 2
    assert {(place.op.type, place.shape[0]) for place in places} == {("Switch", 4)}
