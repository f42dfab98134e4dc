"""Sufficient-factor broadcasting: matrix gradients A^T B travel as A and B (Xie et al. 2014; Poseidon, Zhang 2017).

The mean over N replicas is one product: all replicas' A on top of one another, transposed, times all their B / N.
"""

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.arrays import cut, end_to_end, flat, shaped
from autosync.engine.sync.exchange import BucketPlace, FactorPair, ServerPlace
from autosync.engine.sync.gathered import gathered
from autosync.engine.sync.member import Members
from autosync.engine.sync.memory import Memory
from autosync.layout.factor_messages import are_small, factor_messages


@final
class FactorBucket:
    """Every replica sends both factors of each of its gradients to every other, and multiplies out all.

    Those of small matrices go in one message.
    """

    memories: Sequence[Memory] = ()

    def __init__(self, place: BucketPlace) -> None:
        self._place = place

    def means(self, gradients: Sequence[Sequence[FactorPair]]) -> list[list[Any]]:
        members, shards = self._place.members, self._place.shards
        means: list[list[Any]] = [[] for _ in members]
        for together in factor_messages(shards):
            sent = [list(pairs[together.start : together.stop]) for pairs in gradients]
            small = are_small(shards[together.start : together.stop])
            arrived = _together(members, sent) if small else _apart(members, sent)
            for member, of_replica, pairs_of_all in zip(members, means, arrived, strict=True):
                of_replica += [_mean(member.device, pairs) for pairs in zip(*pairs_of_all, strict=True)]
        return means


@final
class FactorShard:
    """Every replica pushes both factors to the server."""

    memories: Sequence[Memory] = ()

    def __init__(self, place: ServerPlace) -> None:
        self._place = place

    def mean(self, gradients: Sequence[FactorPair]) -> Any:
        return _mean(self._place.server.device, gradients)


def _apart(members: Members, sent: Sequence[Sequence[FactorPair]]) -> list[list[list[FactorPair]]]:
    """`[t][r]`: replica r's factors (`sent[r]`, of one matrix), for ops on replica t to read; each factor a message."""
    lefts, rights = (gathered(members, [getattr(pair, side) for (pair,) in sent]) for side in ("left", "right"))
    return [
        [[FactorPair(*pair)] for pair in zip(left, right, strict=True)]
        for left, right in zip(lefts, rights, strict=True)
    ]


def _together(members: Members, sent: Sequence[Sequence[FactorPair]]) -> list[list[list[FactorPair]]]:
    """The same of several matrices, whose factors are sent end to end; a replica's own stay as they are."""
    if len(members) == 1:
        return [list(map(list, sent))]
    whole = []
    for member, pairs in zip(members, sent, strict=True):
        factors = [flat(each, member.device) for pair in pairs for each in (pair.left, pair.right)]
        whole.append(end_to_end(factors, member.device))
    shapes = [tuple(each.shape) for pair in sent[0] for each in (pair.left, pair.right)]
    return [
        [
            list(sent[origin]) if origin == target else _pairs(array, shapes, members[target].device)
            for origin, array in enumerate(arrived)
        ]
        for target, arrived in enumerate(gathered(members, whole))
    ]


def _pairs(array: Any, shapes: Sequence[tuple[int, int]], device: str) -> list[FactorPair]:
    """The factors of these shapes, left and right in turn, that an array has end to end."""
    parts = cut(array, [rows * columns for rows, columns in shapes], device)
    factors = [shaped(part, shape, device) for part, shape in zip(parts, shapes, strict=True)]
    return list(map(FactorPair, factors[::2], factors[1::2]))


def _mean(device: str, pairs: Sequence[FactorPair]) -> Any:
    """The mean of the replicas' products, flat, on `device`."""
    import tensorflow as tf

    with tf.device(device):
        left = tf.concat([pair.left for pair in pairs], 0)
        right = tf.concat([pair.right for pair in pairs], 0) * (1.0 / len(pairs))
        return tf.reshape(tf.matmul(left, right, transpose_a=True), [-1])
