"""PowerSGD exchanges: matrices are sent as two thin factors (Vogels, Karimireddy and Jaggi 2019, algorithms 1 and 2).

Notation: M_r is replica r's gradient plus its unsent rest (error feedback), rows x columns; Q is the right factor of
the last step (warm start), columns x rank; mean is over replicas. One step of subspace iteration:

    P = mean(M_r Q), its columns made orthonormal;   Q_r = M_r^T P;   the mean gradient is P mean(Q_r)^T.

If a column of P vanishes, it stays zero, and its column of Q stays unchanged for the next try.

With an all-reduce every replica knows both means: the next Q is mean(Q_r), and unsent is M_r - P mean(Q_r)^T, as in the
paper. With a server, mean(Q_r) stays on the server, which saves the way back: a replica continues from its own Q_r, and
unsent is M_r - P Q_r^T. The mean of the unsent rests is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import tensorflow as tf

from autosync.engine.core.right_factor import first_right_factor
from autosync.engine.tensorflow.sync.dense import WholeShard, mean_by_all_reduce
from autosync.engine.tensorflow.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.tensorflow.sync.member import Member
from autosync.engine.tensorflow.sync.memory import ErrorFeedback, ReplicaMemory
from autosync.engine.tensorflow.sync.orthonormal import orthonormal
from autosync.engine.tensorflow.sync.thin_factors import FactoredMatrices
from autosync.engine.tensorflow.sync.wire import PLAIN
from autosync.spec import PowerSGD


@final
class PowerSGDBucket:
    """All-reduces the left factors together with all gradients that are not factored, and then the right factors."""

    def __init__(self, place: BucketPlace, compressor: PowerSGD, algorithm: str) -> None:
        """Lay out a bucket. At least one of its shards must be a matrix that is worth factoring."""
        shapes = [compressor.matrix(shard.shape) for shard in place.shards]
        factored = [shard for shard, shape in zip(place.shards, shapes, strict=True) if shape]
        self._place = place
        self._is_factored = [shape is not None for shape in shapes]
        self._matrices = FactoredMatrices(tuple(shape for shape in shapes if shape), compressor.rank)
        self._algorithm = algorithm
        self._feedback = ErrorFeedback(place.members, self._matrices.elements, place.dtype)
        first = np.concatenate([first_right_factor(shard.slice, compressor) for shard in factored])
        self._right = ReplicaMemory(place.members, first)
        self.memories: Sequence[ReplicaMemory] = [self._feedback.memory, self._right]

    def means(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[list[Any]]:
        members = self._place.members
        accumulated = self._feedback.add_unsent(self._flat(gradients, factored=True))
        wholes = self._flat(gradients, factored=False)
        parts = [
            _Part(member, self._matrices, flat, right)
            for member, flat, right in zip(members, accumulated, self._right.read(), strict=True)
        ]
        first = self._mean([part.first_message(whole) for part, whole in zip(parts, wholes, strict=True)])
        second = self._mean([part.second_message(mean) for part, mean in zip(parts, first, strict=True)])
        decoded = [part.decode(mean) for part, mean in zip(parts, second, strict=True)]
        self._feedback.keep([part.unsent for part in parts])
        self._right.keep([part.next_right for part in parts])
        return [self._in_order(part, products) for part, products in zip(parts, decoded, strict=True)]

    def _flat(self, gradients: Sequence[Sequence[tf.Tensor]], factored: bool) -> list[Any]:
        """Join every replica's factored gradients end to end, or its other gradients; empty if there are none."""
        flat = []
        for member, of_replica in zip(self._place.members, gradients, strict=True):
            with tf.device(member.device):
                picked = [
                    tf.reshape(gradient, [-1])
                    for gradient, is_factored in zip(of_replica, self._is_factored, strict=True)
                    if is_factored == factored
                ]
                flat.append(tf.concat(picked, 0) if picked else tf.zeros([0], self._place.dtype))
        return flat

    def _mean(self, messages: Sequence[Any]) -> list[Any]:
        return mean_by_all_reduce(self._place.members, messages, self._algorithm, PLAIN)

    def _in_order(self, part: _Part, products: Sequence[Any]) -> list[Any]:
        """Return all shards of the bucket in their order, each flat."""
        with tf.device(part.device):
            whole_sizes = [
                shard.elements
                for shard, is_factored in zip(self._place.shards, self._is_factored, strict=True)
                if not is_factored
            ]
            wholes = iter(tf.split(part.whole, whole_sizes) if whole_sizes else [])
            matrices = iter(products)
            return [next(matrices if is_factored else wholes) for is_factored in self._is_factored]


@final
class _Part:
    """One replica's part in one step of an all-reduced bucket."""

    def __init__(self, member: Member, matrices: FactoredMatrices, accumulated: Any, right: tf.Tensor) -> None:
        """`accumulated`: the matrices, flat, with their unsent rests; `right`: their Q."""
        self.device = member.device
        self._host = member.host
        self._matrices = matrices
        self._accumulated = accumulated
        self._right = right
        with tf.device(self.device):
            self._cut = matrices.cut(accumulated)
        self._left: Any = None
        self.whole: tf.Tensor | None = None  # the mean of the gradients that are not factored
        self.unsent: tf.Tensor | None = None
        self.next_right: Any = None

    def first_message(self, whole: tf.Tensor) -> Any:
        """The left factors, followed by the gradients that are not factored."""
        with tf.device(self.device):
            left = self._matrices.left_factors(self._cut, self._right)
            return tf.concat([tf.reshape(left, [-1]), whole], 0)

    def second_message(self, mean: tf.Tensor) -> Any:
        """The right factors, once the `mean` of the first messages is known."""
        rank = self._matrices.rank
        with tf.device(self.device):
            left_size = sum(self._matrices.rows) * rank
            left, self.whole = tf.split(mean, [left_size, int(mean.shape[0]) - left_size])
        with tf.device(self._host):
            self._left = orthonormal(tf.reshape(left, [-1, rank]), self._matrices.rows)
        with tf.device(self.device):
            return tf.reshape(self._matrices.right_factors(self._cut, self._left), [-1])

    def decode(self, mean: tf.Tensor) -> list[Any]:
        """Return the mean gradient of every matrix, flat, from the `mean` of the second messages."""
        with tf.device(self.device):
            right = tf.reshape(mean, [-1, self._matrices.rank])
            products = self._matrices.products(self._left, right)
            self.unsent = self._accumulated - tf.concat(products, 0)
            self.next_right = self._matrices.warm_start(self._right, right, self._left)
            return products


@final
class PowerSGDShard:
    """Sums left factors on their way to the server, returns them orthonormal, and then sums right factors."""

    def __init__(self, place: ServerPlace, compressor: PowerSGD) -> None:
        """The shard must be a matrix that is worth factoring."""
        shape = compressor.matrix(place.shard.shape)
        assert shape is not None
        self._place = place
        self._matrices = FactoredMatrices((shape,), compressor.rank)
        self._push = WholeShard(place, PLAIN)
        self._feedback = ErrorFeedback(place.members, place.shard.elements, place.shard.variable.dtype)
        self._right = ReplicaMemory(place.members, first_right_factor(place.shard.slice, compressor))
        self.memories: Sequence[ReplicaMemory] = [self._feedback.memory, self._right]

    def mean(self, gradients: Sequence[tf.Tensor]) -> Any:
        matrices, members, server = self._matrices, self._place.members, self._place.server.device
        flat = []
        for member, gradient in zip(members, gradients, strict=True):
            with tf.device(member.device):
                flat.append(tf.reshape(gradient, [-1]))
        accumulated, rights, lefts = self._feedback.add_unsent(flat), self._right.read(), []
        for member, total, right in zip(members, accumulated, rights, strict=True):
            with tf.device(member.device):
                lefts.append(matrices.left_factors(matrices.cut(total), right))
        mean_left = self._push.mean(lefts)
        with tf.device(server):
            left = orthonormal(tf.reshape(mean_left, [-1, matrices.rank]), matrices.rows)
        mean_right = self._push.mean(self._right_factors(accumulated, rights, left))
        with tf.device(server):
            return matrices.products(left, tf.reshape(mean_right, [-1, matrices.rank]))[0]

    def _right_factors(self, accumulated: Sequence[Any], rights: Sequence[Any], left: tf.Tensor) -> list[Any]:
        """Compute every replica's Q_r, and keep the unsent rests and the next warm starts."""
        matrices, unsent, following, factors = self._matrices, [], [], []
        for member, total, right in zip(self._place.members, accumulated, rights, strict=True):
            with tf.device(member.device):
                factor = matrices.right_factors(matrices.cut(total), left)
                factors.append(factor)
                unsent.append(total - matrices.products(left, factor)[0])
                following.append(matrices.warm_start(right, factor, left))
        self._feedback.keep(unsent)
        self._right.keep(following)
        return factors
