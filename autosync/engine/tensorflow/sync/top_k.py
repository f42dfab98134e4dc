"""Top-k exchanges: a replica sends its largest elements and adds the rest to its next gradient.

With error feedback (Stich et al. 2018), a replica computes acc = unsent + gradient, sends the k elements of acc with
the largest magnitudes, and keeps the rest as the new unsent. Among equal magnitudes the lower index wins. NaN counts as
infinite, so that a gradient which is not finite reaches all replicas.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import tensorflow as tf

from autosync.engine.tensorflow.sync.dense import flat_bucket, mean_by_all_reduce
from autosync.engine.tensorflow.sync.dynamic_broadcast import broadcast_from
from autosync.engine.tensorflow.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.tensorflow.sync.gathered import gather_tensors
from autosync.engine.tensorflow.sync.member import Member, Members
from autosync.engine.tensorflow.sync.memory import ErrorFeedback, ReplicaMemory
from autosync.engine.tensorflow.sync.topk_levels import KeptCounts, TopKLevels
from autosync.engine.tensorflow.sync.wire import PLAIN
from autosync.spec import TopK


@dataclass(frozen=True)
class _Entries:
    """Elements of a flat array: the distinct indices `places` (k,) int32, and the `values` (k,) there."""

    places: Any
    values: Any


@final
class OwnTopKBucket:
    """Every replica sends its own k values and their indices to all others; all add the values in the same order."""

    def __init__(
        self,
        place: BucketPlace,
        compressor: TopK,
        algorithm: str,
        levels: TopKLevels,
        feedback: ErrorFeedback | None = None,
    ) -> None:
        """If everything is kept, it is all-reduced by `algorithm`. `feedback` may be shared with other exchanges."""
        self._place = place
        self._algorithm = algorithm
        self._feedback = feedback or ErrorFeedback(place.members, place.elements, place.dtype)
        self._kept = levels.counts(compressor, place.elements)
        self.memories: Sequence[ReplicaMemory] = [self._feedback.memory]

    def means(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[list[Any]]:
        members, elements = self._place.members, self._place.elements
        if self._kept.levels.whole:
            return _mean_of_everything(self._place, self._feedback, gradients, self._kept, self._algorithm)
        chosen = _choose_own(members, self._feedback, flat_bucket(self._place, gradients), self._kept)
        places, values = (
            gather_tensors(members, [getattr(entries, part) for entries in chosen]) for part in ("places", "values")
        )
        return [
            [_mean(member.device, list(map(_Entries, *arrived)), elements)]
            for member, *arrived in zip(members, places, values, strict=True)
        ]


@final
class OwnTopKShard:
    """Every replica pushes its own k values and their indices straight to the server."""

    def __init__(self, place: ServerPlace, compressor: TopK, levels: TopKLevels) -> None:
        self._place = place
        self._elements = place.shard.elements
        self._feedback = ErrorFeedback(place.members, self._elements, place.shard.variable.dtype)
        self._kept = levels.counts(compressor, self._elements)
        self.memories: Sequence[ReplicaMemory] = [self._feedback.memory]

    def mean(self, gradients: Sequence[tf.Tensor]) -> Any:
        members, flat = self._place.members, []
        for member, gradient in zip(members, gradients, strict=True):
            with tf.device(member.device):
                flat.append(tf.reshape(gradient, [-1]))
        if self._kept.levels.whole:
            everything = _take_everything(members, self._feedback, flat, self._kept)
            with tf.device(self._place.server.device):
                return tf.add_n(everything) * (1.0 / len(everything))
        chosen = _choose_own(members, self._feedback, flat, self._kept)
        return _mean(self._place.server.device, chosen, self._elements)


@final
class SharedTopKBucket:
    """AR-Topk (Tyagi and Swany 2023, algorithm 1): all replicas use the indices of one sender, and all-reduce the
    values.

    With "star", the replicas take turns as the sender. With "var", the sender is the replica whose chosen values have
    the largest sum of squares (the first of equal ones). To find it, the replicas first exchange these sums, a float32
    each.
    """

    def __init__(
        self,
        place: BucketPlace,
        compressor: TopK,
        algorithm: str,
        levels: TopKLevels,
        feedback: ErrorFeedback | None = None,
    ) -> None:
        """`feedback` may be shared with other exchanges."""
        self._place = place
        self._feedback = feedback or ErrorFeedback(place.members, place.elements, place.dtype)
        self._kept = levels.counts(compressor, place.elements)
        self._algorithm = algorithm
        self._turn = ReplicaMemory(place.members, np.int32(0)) if compressor.indices == "star" else None
        self.memories: Sequence[ReplicaMemory] = [self._feedback.memory, *([self._turn] if self._turn else [])]

    def means(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[list[Any]]:
        members, elements = self._place.members, self._place.elements
        if self._kept.levels.whole:
            return _mean_of_everything(self._place, self._feedback, gradients, self._kept, self._algorithm)
        accumulated = self._feedback.add_unsent(flat_bucket(self._place, gradients))
        candidates = [
            _largest(member.device, total, self._kept) for member, total in zip(members, accumulated, strict=True)
        ]
        senders = _loudest(members, candidates) if self._turn is None else _next_turn(members, self._turn)
        places = broadcast_from(members, [entries.places for entries in candidates], senders)
        sent, unsent = [], []
        for member, total, indices in zip(members, accumulated, places, strict=True):
            with tf.device(member.device):
                # The sender's indices may leave a number that is not finite unsent here, which must still fail the
                # step.
                finite = tf.reduce_all(tf.math.is_finite(total))
                sent.append(tf.where(finite, tf.gather(total, indices), tf.constant(np.nan, total.dtype)))
                unsent.append(_without(total, indices))
        self._feedback.keep(unsent)
        kept = self._kept if self._kept.varies else None
        mean_values, means = mean_by_all_reduce(members, sent, self._algorithm, PLAIN, kept), []
        for member, indices, values in zip(members, places, mean_values, strict=True):
            with tf.device(member.device):
                means.append([tf.scatter_nd(tf.expand_dims(indices, 1), values, [elements])])
        return means


@final
class SwitchedTopKBucket:
    """Sends top-k's elements by one of several transports, fixed when a step is traced, with one error feedback."""

    def __init__(self, place: BucketPlace, compressor: TopK, levels: TopKLevels) -> None:
        feedback = ErrorFeedback(place.members, place.elements, place.dtype)
        self._levels = levels
        self._ways: list[OwnTopKBucket | SharedTopKBucket] = []
        for transport in levels.transports:
            by = replace(compressor, indices=transport.indices)
            if transport.indices == "own":
                self._ways.append(OwnTopKBucket(place, by, transport.algorithm, levels, feedback))
            else:
                self._ways.append(SharedTopKBucket(place, by, transport.algorithm, levels, feedback))
        # The exchanges share the memory of the error feedback, which must be in the state once.
        memories = dict.fromkeys(memory for exchange in self._ways for memory in exchange.memories)
        self.memories: Sequence[ReplicaMemory] = list(memories)

    def means(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[list[Any]]:
        return self._ways[self._levels.transport].means(gradients)


def _choose_own(
    members: Sequence[Member], feedback: ErrorFeedback, flat: Sequence[tf.Tensor], kept: KeptCounts
) -> list[_Entries]:
    """Choose every replica's own largest elements, and keep the rest as unsent."""
    chosen, unsent = [], []
    for member, total in zip(members, feedback.add_unsent(flat), strict=True):
        chosen.append(_largest(member.device, total, kept))
        with tf.device(member.device):
            unsent.append(_without(total, chosen[-1].places))
    feedback.keep(unsent)
    return chosen


def _largest(device: str, flat: tf.Tensor, kept: KeptCounts) -> _Entries:
    """Return the elements of largest magnitude, in any order.

    If the energies of all ratios are watched, the elements are in descending order, because one search for the greatest
    count then serves all ratios.
    """
    count = kept.count(device)
    with tf.device(device):
        magnitudes = tf.where(tf.math.is_nan(flat), tf.constant(np.inf, flat.dtype), tf.abs(flat))
        if not kept.levels.watched:
            places = tf.math.top_k(magnitudes, count, sorted=False).indices
            return _Entries(places, tf.gather(flat, places))
        places = _places_of_largest(device, magnitudes, kept)[:count]
        return _Entries(places, tf.gather(flat, places))


def _places_of_largest(device: str, magnitudes: Any, kept: KeptCounts) -> Any:
    """Return the indices of the largest elements in descending order, and note the energy that each ratio would keep.

    The number of indices is the greatest count of all ratios except 1.
    """
    parts = zip(kept.levels.ratios, kept.counts, strict=True)
    greatest = max((count for ratio, count in parts if ratio < 1), default=1)
    with tf.device(device):
        largest = tf.math.top_k(magnitudes, greatest, sorted=True)
        kept.levels.note(device, magnitudes, largest.values, kept.counts)
        return largest.indices


def _take_everything(
    members: Sequence[Member], feedback: ErrorFeedback, flat: Sequence[tf.Tensor], kept: KeptCounts
) -> list[Any]:
    """Return every replica's whole gradient plus its unsent rest, and set the rest to zero."""
    everything, unsent = feedback.add_unsent(flat), []
    for member, total in zip(members, everything, strict=True):
        with tf.device(member.device):
            unsent.append(tf.zeros_like(total))
            if kept.levels.watched:
                _places_of_largest(member.device, tf.abs(total), kept)
    feedback.keep(unsent)
    return everything


def _mean_of_everything(
    place: BucketPlace,
    feedback: ErrorFeedback,
    gradients: Sequence[Sequence[tf.Tensor]],
    kept: KeptCounts,
    algorithm: str,
) -> list[list[Any]]:
    """The mean of the replicas' whole gradients and unsent rests, by an all-reduce without indices."""
    everything = _take_everything(place.members, feedback, flat_bucket(place, gradients), kept)
    return [[mean] for mean in mean_by_all_reduce(place.members, everything, algorithm, PLAIN)]


def _without(flat: tf.Tensor, places: Any) -> Any:
    return tf.tensor_scatter_nd_update(flat, tf.expand_dims(places, 1), tf.zeros_like(places, flat.dtype))


def _mean(device: str, chosen: Sequence[_Entries], elements: int) -> Any:
    """The mean of all replicas' entries, added in the replicas' order, on `device`."""
    with tf.device(device):
        first, *rest = chosen
        total = tf.scatter_nd(tf.expand_dims(first.places, 1), first.values, [elements])
        for entries in rest:
            total = tf.tensor_scatter_nd_add(total, tf.expand_dims(entries.places, 1), entries.values)
        return total * (1.0 / len(chosen))


def _next_turn(members: Sequence[Member], turn: ReplicaMemory) -> list[Any]:
    """The replica whose turn it is, on every replica. Each replica counts the turns itself, without messages."""
    turns, following = turn.read(), []
    for member, number in zip(members, turns, strict=True):
        with tf.device(member.device):
            following.append((number + 1) % len(members))
    turn.keep(following)
    return turns


def _loudest(members: Members, candidates: Sequence[_Entries]) -> list[Any]:
    """The replica whose values have the largest sum of squares, computed on every replica from the same numbers."""
    square_sums = []
    for member, entries in zip(members, candidates, strict=True):
        with tf.device(member.device):
            square_sum = tf.cast(tf.reduce_sum(tf.square(entries.values)), tf.float32)
            square_sums.append(tf.where(tf.math.is_nan(square_sum), np.float32(np.inf), square_sum))
    loudest = []
    for member, arrived in zip(members, gather_tensors(members, square_sums), strict=True):
        with tf.device(member.device):
            known = tf.stack(arrived)
            is_largest = tf.equal(known, tf.reduce_max(known))
            loudest.append(tf.reduce_min(tf.where(is_largest, tf.range(len(members)), len(members))))
    return loudest
