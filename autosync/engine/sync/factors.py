"""Sufficient-factor broadcasting: matrix gradients A^T B travel as A and B (Xie et al. 2014; Poseidon, Zhang 2017).

The mean over N replicas is one product: all replicas' A on top of one another, transposed, times all their B / N.
"""

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.sync.exchange import BucketPlace, FactorPair, ServerPlace
from autosync.engine.sync.memory import Memory


@final
class FactorBucket:
    """Every replica sends both factors of each of its gradients to every other, and multiplies out all."""

    memories: Sequence[Memory] = ()

    def __init__(self, place: BucketPlace) -> None:
        self._place = place

    def means(self, gradients: Sequence[Sequence[FactorPair]]) -> list[list[Any]]:
        devices = [member.device for member in self._place.members]
        return [[_mean(device, pairs) for pairs in zip(*gradients, strict=True)] for device in devices]


@final
class FactorShard:
    """Every replica pushes both factors to the server."""

    memories: Sequence[Memory] = ()

    def __init__(self, place: ServerPlace) -> None:
        self._place = place

    def mean(self, gradients: Sequence[FactorPair]) -> Any:
        return _mean(self._place.server.device, gradients)


def _mean(device: str, pairs: Sequence[FactorPair]) -> Any:
    """The mean of the replicas' products, flat, on `device`."""
    import tensorflow as tf

    with tf.device(device):
        left = tf.concat([pair.left for pair in pairs], 0)
        right = tf.concat([pair.right for pair in pairs], 0) * (1.0 / len(pairs))
        return tf.reshape(tf.matmul(left, right, transpose_a=True), [-1])
