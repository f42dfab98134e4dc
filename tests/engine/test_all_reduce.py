"""All-reduce algorithms on arrays of any length, shorter than the number of replicas included."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.sync.all_reduce import ALL_REDUCE
from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import PLAIN


def _members(count: int, a_node: int = 2) -> list[Member]:
    """`count` members, `a_node` on each node."""
    return [
        Member(f"/CPU:{index}", f"node{index // a_node}", f"/CPU:{index // a_node * a_node}") for index in range(count)
    ]


def _means(algorithm: str, gradients: list[np.ndarray], wire=PLAIN) -> list[np.ndarray]:
    members = _members(len(gradients))

    @tf.function(autograph=False)
    def reduce(flat):
        return [tf.concat(chunks, 0) for chunks in ALL_REDUCE[algorithm](members, flat, wire)]

    return [each.numpy() for each in reduce([tf.constant(each) for each in gradients])]


@pytest.mark.parametrize("algorithm", ALL_REDUCE)
@pytest.mark.parametrize("elements", [1, 2, 3, 4, 5, 7, 97])
@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 7])
def test_every_replica_gets_the_same_bits_of_the_mean(algorithm, replicas, elements):
    gradients = list(np.random.default_rng(0).normal(size=(replicas, elements)).astype(np.float32))
    means = _means(algorithm, gradients)
    assert len({each.tobytes() for each in means}) == 1
    np.testing.assert_allclose(means[0], np.mean(gradients, axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", ALL_REDUCE)
def test_a_nan_of_one_replica_reaches_all(algorithm):
    gradients = [np.ones(5, np.float32) for _ in range(3)]
    gradients[1][4] = np.nan
    for mean in _means(algorithm, gradients):
        np.testing.assert_array_equal(np.isnan(mean), [False] * 4 + [True])
