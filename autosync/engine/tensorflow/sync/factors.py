"""Sufficient-factor broadcasting: a matrix gradient A^T B is sent as A and B (Xie et al. 2014; Poseidon, Zhang 2017).

The mean over N replicas is one product: the stacked A of all replicas, transposed, times their stacked B / N.
"""

from collections.abc import Sequence
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.arrays import cut, end_to_end, flat, unflatten
from autosync.engine.tensorflow.sync.exchange import BucketPlace, FactorPair, ServerPlace
from autosync.engine.tensorflow.sync.gathered import gather_tensors
from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.memory import ReplicaMemory
from autosync.layout.factor_messages import are_small, factor_messages


@final
class FactorBucket:
    """Every replica sends both factors of each of its gradients to all others, and multiplies all factors itself.

    The factors of small matrices share one message.
    """

    memories: Sequence[ReplicaMemory] = ()

    def __init__(self, place: BucketPlace) -> None:
        self._place = place

    def means(self, gradients: Sequence[Sequence[FactorPair]]) -> list[list[Any]]:
        members, shards = self._place.members, self._place.shards
        means: list[list[Any]] = [[] for _ in members]
        for together in factor_messages(shards):
            sent = [list(pairs[together.start : together.stop]) for pairs in gradients]
            small = are_small(shards[together.start : together.stop])
            arrived = _exchange_together(members, sent) if small else _exchange_apart(members, sent)
            for member, of_replica, pairs_of_all in zip(members, means, arrived, strict=True):
                of_replica += [_mean(member.device, pairs) for pairs in zip(*pairs_of_all, strict=True)]
        return means


@final
class FactorShard:
    """Every replica pushes both factors to the server."""

    memories: Sequence[ReplicaMemory] = ()

    def __init__(self, place: ServerPlace) -> None:
        self._place = place

    def mean(self, gradients: Sequence[FactorPair]) -> Any:
        return _mean(self._place.server.device, gradients)


def _exchange_apart(members: Members, sent: Sequence[Sequence[FactorPair]]) -> list[list[list[FactorPair]]]:
    """Send each factor as its own message.

    Returns `[t][r]`: replica r's factors (`sent[r]`, of one matrix), for ops on replica t to read.
    """
    lefts, rights = (gather_tensors(members, [getattr(pair, side) for (pair,) in sent]) for side in ("left", "right"))
    return [
        [[FactorPair(*pair)] for pair in zip(left, right, strict=True)]
        for left, right in zip(lefts, rights, strict=True)
    ]


def _exchange_together(members: Members, sent: Sequence[Sequence[FactorPair]]) -> list[list[list[FactorPair]]]:
    """Send the factors of several matrices end to end in one message; returns the same as `_exchange_apart`.

    A replica reads its own factors directly.
    """
    if len(members) == 1:
        return [list(map(list, sent))]
    whole = []
    for member, pairs in zip(members, sent, strict=True):
        factors = [flat(factor, member.device) for pair in pairs for factor in (pair.left, pair.right)]
        whole.append(end_to_end(factors, member.device))
    shapes = [tuple(factor.shape) for pair in sent[0] for factor in (pair.left, pair.right)]
    return [
        [
            list(sent[origin]) if origin == target else _pairs(array, shapes, members[target].device)
            for origin, array in enumerate(arrived)
        ]
        for target, arrived in enumerate(gather_tensors(members, whole))
    ]


def _pairs(array: Any, shapes: Sequence[tuple[int, int]], device: str) -> list[FactorPair]:
    """Cut the factors of these shapes, left and right alternately, out of an array that has them end to end."""
    parts = cut(array, [rows * columns for rows, columns in shapes], device)
    factors = [unflatten(part, shape, device) for part, shape in zip(parts, shapes, strict=True)]
    return list(map(FactorPair, factors[::2], factors[1::2]))


def _mean(device: str, pairs: Sequence[FactorPair]) -> Any:
    """The mean of the replicas' products, flat, on `device`."""
    with tf.device(device):
        left = tf.concat([pair.left for pair in pairs], 0)
        right = tf.concat([pair.right for pair in pairs], 0) * (1.0 / len(pairs))
        return tf.reshape(tf.matmul(left, right, transpose_a=True), [-1])
