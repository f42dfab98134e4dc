"""PowerSGD exchanges: matrices travel as two thin factors (Vogels, Karimireddy and Jaggi 2019, algorithms 1 and 2).

Notation: M_r is replica r's gradient with what it still had to send (error feedback), rows x columns; Q is the right
factor of the last step (warm start), columns x rank; mean is over replicas. One step of subspace iteration:

    P = mean(M_r Q), its columns made orthonormal;   Q_r = M_r^T P;   the mean gradient is P mean(Q_r)^T.

A column of P that vanishes is left zero, and its column of Q stays what it was, so that it is tried again.

All-reduced, both means are known to every replica: the next Q is mean(Q_r), and unsent is M_r - P mean(Q_r)^T, as in
the paper. At a server mean(Q_r) stays where it is applied, to save its way back: a replica goes on from its own Q_r,
and unsent is M_r - P Q_r^T. The mean of what is unsent is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from autosync.engine.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.sync.member import Member
from autosync.engine.sync.memory import ErrorFeedback, Memory
from autosync.engine.sync.orthonormal import orthonormal
from autosync.engine.sync.thin_factors import Matrices, first_right_factor
from autosync.engine.sync.whole import WholeShard, all_reduced
from autosync.engine.sync.wire import PLAIN
from autosync.spec import PowerSGD


@final
class PowerSGDBucket:
    """All-reduces the left factors, together with all that travels whole, and then the right ones."""

    def __init__(self, place: BucketPlace, compressor: PowerSGD, algorithm: str) -> None:
        """Lay out a bucket, of whose shards one at least must be a matrix that is worth factoring."""
        shapes = [compressor.matrix(shard.shape) for shard in place.shards]
        factored = [shard for shard, shape in zip(place.shards, shapes, strict=True) if shape]
        self._place = place
        self._is_factored = [shape is not None for shape in shapes]
        self._matrices = Matrices(tuple(shape for shape in shapes if shape), compressor.rank)
        self._algorithm = algorithm
        self._feedback = ErrorFeedback(place.members, self._matrices.elements, place.dtype)
        first = np.concatenate([first_right_factor(shard, compressor) for shard in factored])
        self._right = Memory(place.members, first)
        self.memories: Sequence[Memory] = [self._feedback.memory, self._right]

    def means(self, gradients: Sequence[Sequence[Any]]) -> list[list[Any]]:
        members = self._place.members
        accumulated = self._feedback.added(self._flat(gradients, factored=True))
        wholes = self._flat(gradients, factored=False)
        parts = [
            _Part(member, self._matrices, flat, right)
            for member, flat, right in zip(members, accumulated, self._right.read(), strict=True)
        ]
        first = self._mean([part.first_message(whole) for part, whole in zip(parts, wholes, strict=True)])
        second = self._mean([part.second_message(mean) for part, mean in zip(parts, first, strict=True)])
        decoded = [part.decoded(mean) for part, mean in zip(parts, second, strict=True)]
        self._feedback.keep([part.unsent for part in parts])
        self._right.keep([part.next_right for part in parts])
        return [self._in_order(part, products) for part, products in zip(parts, decoded, strict=True)]

    def _flat(self, gradients: Sequence[Sequence[Any]], factored: bool) -> list[Any]:
        """Every replica's factored gradients end to end, or those that travel whole; an empty array of none."""
        import tensorflow as tf

        flat = []
        for member, of_replica in zip(self._place.members, gradients, strict=True):
            with tf.device(member.device):
                picked = [
                    tf.reshape(each, [-1])
                    for each, is_factored in zip(of_replica, self._is_factored, strict=True)
                    if is_factored == factored
                ]
                flat.append(tf.concat(picked, 0) if picked else tf.zeros([0], self._place.dtype))
        return flat

    def _mean(self, messages: Sequence[Any]) -> list[Any]:
        return all_reduced(self._place.members, messages, self._algorithm, PLAIN)

    def _in_order(self, part: _Part, products: Sequence[Any]) -> list[Any]:
        """The whole bucket, its shards in their order, each flat."""
        import tensorflow as tf

        with tf.device(part.device):
            whole_sizes = [
                shard.elements
                for shard, is_factored in zip(self._place.shards, self._is_factored, strict=True)
                if not is_factored
            ]
            wholes = iter(tf.split(part.whole, whole_sizes) if whole_sizes else [])
            matrices = iter(products)
            return [next(matrices if each else wholes) for each in self._is_factored]


@final
class _Part:
    """One replica's part in one step of an all-reduced bucket."""

    def __init__(self, member: Member, matrices: Matrices, accumulated: Any, right: Any) -> None:
        """`accumulated`: the matrices, flat, with what was unsent; `right`: their Q."""
        import tensorflow as tf

        self.device = member.device
        self._host = member.host
        self._matrices = matrices
        self._accumulated = accumulated
        self._right = right
        with tf.device(self.device):
            self._cut = matrices.cut(accumulated)
        self._left: Any = None
        self.whole: Any = None  # the mean of what travels whole
        self.unsent: Any = None
        self.next_right: Any = None

    def first_message(self, whole: Any) -> Any:
        """The left factors, and behind them what is not factored."""
        import tensorflow as tf

        with tf.device(self.device):
            left = self._matrices.left_factors(self._cut, self._right)
            return tf.concat([tf.reshape(left, [-1]), whole], 0)

    def second_message(self, mean: Any) -> Any:
        """The right factors, once the `mean` of the first messages is known."""
        import tensorflow as tf

        rank = self._matrices.rank
        with tf.device(self.device):
            left_size = sum(self._matrices.rows) * rank
            left, self.whole = tf.split(mean, [left_size, int(mean.shape[0]) - left_size])
        with tf.device(self._host):
            self._left = orthonormal(tf.reshape(left, [-1, rank]), self._matrices.rows)
        with tf.device(self.device):
            return tf.reshape(self._matrices.right_factors(self._cut, self._left), [-1])

    def decoded(self, mean: Any) -> list[Any]:
        """The mean gradient of every matrix, flat, from the `mean` of the second messages."""
        import tensorflow as tf

        with tf.device(self.device):
            right = tf.reshape(mean, [-1, self._matrices.rank])
            products = self._matrices.products(self._left, right)
            self.unsent = self._accumulated - tf.concat(products, 0)
            self.next_right = self._matrices.renewed(self._right, right, self._left)
            return products


@final
class PowerSGDShard:
    """Left factors are summed on their way to the server and come back orthonormal; then right ones are summed."""

    def __init__(self, place: ServerPlace, compressor: PowerSGD) -> None:
        """The shard must be a matrix that is worth factoring."""
        shape = compressor.matrix(place.shard.shape)
        assert shape is not None
        self._place = place
        self._matrices = Matrices((shape,), compressor.rank)
        self._push = WholeShard(place, PLAIN)
        self._feedback = ErrorFeedback(place.members, place.shard.elements, place.shard.variable.dtype)
        self._right = Memory(place.members, first_right_factor(place.shard, compressor))
        self.memories: Sequence[Memory] = [self._feedback.memory, self._right]

    def mean(self, gradients: Sequence[Any]) -> Any:
        import tensorflow as tf

        matrices, members, server = self._matrices, self._place.members, self._place.server.device
        flat = []
        for member, gradient in zip(members, gradients, strict=True):
            with tf.device(member.device):
                flat.append(tf.reshape(gradient, [-1]))
        accumulated, rights, lefts = self._feedback.added(flat), self._right.read(), []
        for member, each, right in zip(members, accumulated, rights, strict=True):
            with tf.device(member.device):
                lefts.append(matrices.left_factors(matrices.cut(each), right))
        mean_left = self._push.mean(lefts)
        with tf.device(server):
            left = orthonormal(tf.reshape(mean_left, [-1, matrices.rank]), matrices.rows)
        mean_right = self._push.mean(self._right_factors(accumulated, rights, left))
        with tf.device(server):
            return matrices.products(left, tf.reshape(mean_right, [-1, matrices.rank]))[0]

    def _right_factors(self, accumulated: Sequence[Any], rights: Sequence[Any], left: Any) -> list[Any]:
        """Every replica's Q_r; what it has then sent and what it goes on from is remembered."""
        import tensorflow as tf

        matrices, unsent, following, found = self._matrices, [], [], []
        for member, each, right in zip(self._place.members, accumulated, rights, strict=True):
            with tf.device(member.device):
                own = matrices.right_factors(matrices.cut(each), left)
                found.append(own)
                unsent.append(each - matrices.products(left, own)[0])
                following.append(matrices.renewed(right, own, left))
        self._feedback.keep(unsent)
        self._right.keep(following)
        return found
