"""The ring mean of arrays of any length, shorter than the ring included."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.sync.ring import ring_mean


def _means(gradients: list[np.ndarray]) -> list[np.ndarray]:
    devices = [f"/CPU:{index}" for index in range(len(gradients))]

    @tf.function(autograph=False)
    def reduce(flat):
        return [tf.concat(chunks, 0) for chunks in ring_mean(devices, flat)]

    return [each.numpy() for each in reduce([tf.constant(each) for each in gradients])]


@pytest.mark.parametrize("elements", [1, 2, 3, 4, 5, 7, 97])
@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 7])
def test_every_replica_gets_the_same_bits_of_the_mean(replicas, elements):
    gradients = list(np.random.default_rng(0).normal(size=(replicas, elements)).astype(np.float32))
    means = _means(gradients)
    assert len({each.tobytes() for each in means}) == 1
    np.testing.assert_allclose(means[0], np.mean(gradients, axis=0), rtol=1e-5, atol=1e-6)


def test_a_nan_of_one_replica_reaches_all():
    gradients = [np.ones(5, np.float32) for _ in range(3)]
    gradients[1][4] = np.nan
    for mean in _means(gradients):
        np.testing.assert_array_equal(np.isnan(mean), [False] * 4 + [True])
