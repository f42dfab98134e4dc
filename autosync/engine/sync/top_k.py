"""Top-k exchanges: a replica sends its largest elements and keeps the others for its next gradient.

With error feedback (Stich et al. 2018): of acc = unsent + gradient the k elements of largest magnitude are sent, the
rest is the new unsent. Of equal magnitudes the one at the lower place counts as larger; NaN counts as infinite, so
that a gradient which is not finite reaches all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from autosync.engine.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.sync.gathered import gathered
from autosync.engine.sync.ladder import Kept, Ladder
from autosync.engine.sync.member import Member, Members
from autosync.engine.sync.memory import ErrorFeedback, Memory
from autosync.engine.sync.one_speaks import from_one
from autosync.engine.sync.whole import all_reduced, flat_bucket
from autosync.engine.sync.wire import PLAIN
from autosync.spec import TopK


@dataclass(frozen=True)
class _Chosen:
    """Elements of a flat array: `places` (k,) int32, all different, and the `values` (k,) there."""

    places: Any
    values: Any


@final
class OwnTopKBucket:
    """Every replica sends its own k values and their places to every other; all add them up in the same order."""

    def __init__(
        self,
        place: BucketPlace,
        compressor: TopK,
        algorithm: str,
        ladder: Ladder,
        feedback: ErrorFeedback | None = None,
    ) -> None:
        """Where all is kept, it is all-reduced by `algorithm`. `feedback` is one that others use too."""
        self._place = place
        self._algorithm = algorithm
        self._feedback = feedback or ErrorFeedback(place.members, place.elements, place.dtype)
        self._kept = ladder.kept(compressor, place.elements)
        self.memories: Sequence[Memory] = [self._feedback.memory]

    def means(self, gradients: Sequence[Sequence[Any]]) -> list[list[Any]]:
        members, elements = self._place.members, self._place.elements
        if self._kept.ladder.whole:
            return _all_of(self._place, self._feedback, gradients, self._kept, self._algorithm)
        chosen = _own_chosen(members, self._feedback, flat_bucket(self._place, gradients), self._kept)
        places, values = (gathered(members, [getattr(each, part) for each in chosen]) for part in ("places", "values"))
        return [
            [_mean(member.device, list(map(_Chosen, *arrived)), elements)]
            for member, *arrived in zip(members, places, values, strict=True)
        ]


@final
class OwnTopKShard:
    """Every replica pushes its own k values and their places straight to the server."""

    def __init__(self, place: ServerPlace, compressor: TopK, ladder: Ladder) -> None:
        self._place = place
        self._elements = place.shard.elements
        self._feedback = ErrorFeedback(place.members, self._elements, place.shard.variable.dtype)
        self._kept = ladder.kept(compressor, self._elements)
        self.memories: Sequence[Memory] = [self._feedback.memory]

    def mean(self, gradients: Sequence[Any]) -> Any:
        import tensorflow as tf

        members, flat = self._place.members, []
        for member, gradient in zip(members, gradients, strict=True):
            with tf.device(member.device):
                flat.append(tf.reshape(gradient, [-1]))
        if self._kept.ladder.whole:
            everything = _emptied(members, self._feedback, flat, self._kept)
            with tf.device(self._place.server.device):
                return tf.add_n(everything) * (1.0 / len(everything))
        chosen = _own_chosen(members, self._feedback, flat, self._kept)
        return _mean(self._place.server.device, chosen, self._elements)


@final
class SharedTopKBucket:
    """AR-Topk (Tyagi and Swany 2023, algorithm 1): all take the places that one replica chose, and all-reduce them.

    That replica is each in turn with "star". With "var" it is the one whose chosen values have the largest square sum
    (of equal ones the first); all tell each other theirs before, a float32 each.
    """

    def __init__(
        self,
        place: BucketPlace,
        compressor: TopK,
        algorithm: str,
        ladder: Ladder,
        feedback: ErrorFeedback | None = None,
    ) -> None:
        """`feedback` is one that others use too."""
        self._place = place
        self._feedback = feedback or ErrorFeedback(place.members, place.elements, place.dtype)
        self._kept = ladder.kept(compressor, place.elements)
        self._algorithm = algorithm
        self._turn = Memory(place.members, np.int32(0)) if compressor.indices == "star" else None
        self.memories: Sequence[Memory] = [self._feedback.memory, *([self._turn] if self._turn else [])]

    def means(self, gradients: Sequence[Sequence[Any]]) -> list[list[Any]]:
        import tensorflow as tf

        members, elements = self._place.members, self._place.elements
        if self._kept.ladder.whole:
            return _all_of(self._place, self._feedback, gradients, self._kept, self._algorithm)
        accumulated = self._feedback.added(flat_bucket(self._place, gradients))
        own = [_largest(member.device, each, self._kept) for member, each in zip(members, accumulated, strict=True)]
        senders = _loudest(members, own) if self._turn is None else _next_turn(members, self._turn)
        places = from_one(members, [each.places for each in own], senders)
        sent, unsent = [], []
        for member, each, where in zip(members, accumulated, places, strict=True):
            with tf.device(member.device):
                # Where others chose, a number that is not finite may stay unsent; it must fail the step all the same.
                finite = tf.reduce_all(tf.math.is_finite(each))
                sent.append(tf.where(finite, tf.gather(each, where), tf.constant(np.nan, each.dtype)))
                unsent.append(_without(each, where))
        self._feedback.keep(unsent)
        kept = self._kept if self._kept.varies else None
        mean_values, means = all_reduced(members, sent, self._algorithm, PLAIN, kept), []
        for member, where, values in zip(members, places, mean_values, strict=True):
            with tf.device(member.device):
                means.append([tf.scatter_nd(tf.expand_dims(where, 1), values, [elements])])
        return means


@final
class SwitchedTopKBucket:
    """What top-k keeps goes by one of several transports: by that which a step is traced for. All remember the same."""

    def __init__(self, place: BucketPlace, compressor: TopK, ladder: Ladder) -> None:
        feedback = ErrorFeedback(place.members, place.elements, place.dtype)
        self._ladder = ladder
        self._ways: list[OwnTopKBucket | SharedTopKBucket] = []
        for each in ladder.transports:
            by = replace(compressor, indices=each.indices)
            if each.indices == "own":
                self._ways.append(OwnTopKBucket(place, by, each.algorithm, ladder, feedback))
            else:
                self._ways.append(SharedTopKBucket(place, by, each.algorithm, ladder, feedback))
        self.memories: Sequence[Memory] = list(dict.fromkeys(memory for each in self._ways for memory in each.memories))

    def means(self, gradients: Sequence[Sequence[Any]]) -> list[list[Any]]:
        return self._ways[self._ladder.transport].means(gradients)


def _own_chosen(members: Sequence[Member], feedback: ErrorFeedback, flat: Sequence[Any], kept: Kept) -> list[_Chosen]:
    """What every replica sends of its own choice."""
    import tensorflow as tf

    chosen, unsent = [], []
    for member, each in zip(members, feedback.added(flat), strict=True):
        chosen.append(_largest(member.device, each, kept))
        with tf.device(member.device):
            unsent.append(_without(each, chosen[-1].places))
    feedback.keep(unsent)
    return chosen


def _largest(device: str, flat: Any, kept: Kept) -> _Chosen:
    """The elements of largest magnitude, in no order; where it is watched what other counts would keep, in falling one.

    Then the largest of all counts are found once.
    """
    import tensorflow as tf

    count = kept.count(device)
    with tf.device(device):
        magnitudes = tf.where(tf.math.is_nan(flat), tf.constant(np.inf, flat.dtype), tf.abs(flat))
        if not kept.ladder.watched:
            places = tf.math.top_k(magnitudes, count, sorted=False).indices
            return _Chosen(places, tf.gather(flat, places))
        places = _watched(device, magnitudes, kept)[:count]
        return _Chosen(places, tf.gather(flat, places))


def _watched(device: str, magnitudes: Any, kept: Kept) -> Any:
    """The places of the largest elements in falling order, as many as any ratio but 1 keeps; what each ratio would keep
    is noted.
    """
    import tensorflow as tf

    parts = zip(kept.ladder.ratios, kept.counts, strict=True)
    greatest = max((count for ratio, count in parts if ratio < 1), default=1)
    with tf.device(device):
        largest = tf.math.top_k(magnitudes, greatest, sorted=True)
        kept.ladder.note(device, magnitudes, largest.values, kept.counts)
        return largest.indices


def _emptied(members: Sequence[Member], feedback: ErrorFeedback, flat: Sequence[Any], kept: Kept) -> list[Any]:
    """All that every replica has, what it had not sent before included; nothing is left."""
    import tensorflow as tf

    everything, unsent = feedback.added(flat), []
    for member, each in zip(members, everything, strict=True):
        with tf.device(member.device):
            unsent.append(tf.zeros_like(each))
            if kept.ladder.watched:
                _watched(member.device, tf.abs(each), kept)
    feedback.keep(unsent)
    return everything


def _all_of(
    place: BucketPlace, feedback: ErrorFeedback, gradients: Sequence[Sequence[Any]], kept: Kept, algorithm: str
) -> list[list[Any]]:
    """The mean of all that every replica has, by an all-reduce without places."""
    everything = _emptied(place.members, feedback, flat_bucket(place, gradients), kept)
    return [[mean] for mean in all_reduced(place.members, everything, algorithm, PLAIN)]


def _without(flat: Any, places: Any) -> Any:
    import tensorflow as tf

    return tf.tensor_scatter_nd_update(flat, tf.expand_dims(places, 1), tf.zeros_like(places, flat.dtype))


def _mean(device: str, chosen: Sequence[_Chosen], elements: int) -> Any:
    """The mean of what all replicas sent, added up in their order, on `device`."""
    import tensorflow as tf

    with tf.device(device):
        first, *others = chosen
        total = tf.scatter_nd(tf.expand_dims(first.places, 1), first.values, [elements])
        for each in others:
            total = tf.tensor_scatter_nd_add(total, tf.expand_dims(each.places, 1), each.values)
        return total * (1.0 / len(chosen))


def _next_turn(members: Sequence[Member], turn: Memory) -> list[Any]:
    """The replica whose turn it is, as each replica knows by itself."""
    import tensorflow as tf

    turns, following = turn.read(), []
    for member, each in zip(members, turns, strict=True):
        with tf.device(member.device):
            following.append((each + 1) % len(members))
    turn.keep(following)
    return turns


def _loudest(members: Members, own: Sequence[_Chosen]) -> list[Any]:
    """The replica whose values have the largest square sum, as each finds by itself from the same numbers."""
    import tensorflow as tf

    square_sums = []
    for member, each in zip(members, own, strict=True):
        with tf.device(member.device):
            square_sum = tf.cast(tf.reduce_sum(tf.square(each.values)), tf.float32)
            square_sums.append(tf.where(tf.math.is_nan(square_sum), np.float32(np.inf), square_sum))
    loudest = []
    for member, told in zip(members, gathered(members, square_sums), strict=True):
        with tf.device(member.device):
            known = tf.stack(told)
            is_largest = tf.equal(known, tf.reduce_max(known))
            loudest.append(tf.reduce_min(tf.where(is_largest, tf.range(len(members)), len(members))))
    return loudest
