"""Values with their optimizer state, living together on one device."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from autosync.engine.arrays import cut, end_to_end
from autosync.engine.capture.optimizer import CapturedOptimizer
from autosync.layout.shards import Shard

Segments: TypeAlias = tuple[tuple[int, int], ...]
"""Numbers of update rules, each with the number of elements, one after the other, that it is for; () for rule 0."""


@dataclass(frozen=True)
class Correction:
    """The effect of all gradients together on each update (see `gradient_rule`); None where they have none.

    `factor` (scalar float32) scales every gradient; where `allowed` (scalar bool) is false nothing is updated. The next
    step's gradients come out `growth` (scalar float32) times as large as this one's, as the loss scale moves.
    """

    factor: Any = None
    allowed: Any = None
    growth: Any = None

    def scaled(self, gradient: Any) -> Any:
        import tensorflow as tf

        return gradient if self.factor is None else gradient * tf.cast(self.factor, gradient.dtype)

    def chosen(self, new: Any, old: Any) -> Any:
        import tensorflow as tf

        return new if self.allowed is None else tf.where(self.allowed, new, old)


AS_IT_IS = Correction()


@dataclass(frozen=True)
class RowGradient:
    """A mean gradient by row: `values` (n, ...) of the distinct rows `ids` (n,), or of all rows when `ids` is None."""

    ids: Any
    values: Any


@final
class Optimizer:
    """A captured optimizer, loaded into this process."""

    def __init__(self, captured: CapturedOptimizer, rule_of: Sequence[int] = ()) -> None:
        """`rule_of`, if not empty, has the number of the rule of every variable of the model."""
        self.captured = captured
        self._updates: list[Callable[..., list[Any]]] = [rule.callable() for rule in (captured.update, *captured.rules)]
        self._rule_of = tuple(rule_of)

    def segments(self, shards: Sequence[Shard]) -> Segments:
        """The elements that follow each other by one rule, in `shards` end to end; empty if one rule is for all."""
        if not self._rule_of:
            return ()
        rules = [(self._rule_of[shard.slice.variable_index], shard.elements) for shard in shards]
        grouped = itertools.groupby(rules, key=lambda pair: pair[0])
        return tuple((rule, sum(elements for _, elements in group)) for rule, group in grouped)

    def update(self, rule: int, value: Any, gradient: Any, state: Sequence[Any]) -> list[Any]:
        """The new value, slots and scalars of flat arrays that one rule is for."""
        return self._updates[rule](value, gradient, *state)


@final
class Scalars:
    """The optimizer's scalars (iteration, learning rate) on one device, shared by all blocks that live there.

    Within a step every block reads the old ones; the first block's new ones are kept by `advance`.
    """

    def __init__(self, optimizer: Optimizer, device: str) -> None:
        import tensorflow as tf

        self.optimizer = optimizer
        self.device = device
        captured = optimizer.captured
        with tf.device(device):
            self.variables = [
                tf.Variable(tf.cast(start, dtype), trainable=False)
                for start, dtype in zip(captured.scalar_starts, captured.scalar_dtypes, strict=True)
            ]
        self._read: list[Any] = []
        self._next: list[Any] = []

    def begin(self) -> None:
        """Read the scalars; called at the start of tracing a step."""
        import tensorflow as tf

        with tf.device(self.device):
            self._read = [each.read_value() for each in self.variables]
        self._next = []

    def update(self, value: Any, gradient: Any, slots: Sequence[Any], segments: Segments = ()) -> tuple[Any, list[Any]]:
        """The new value and slots after `gradient`; all are flat and of one length, by the rules of `segments`."""
        if len(segments) > 1:
            sizes = [size for _, size in segments]
            pieces = zip(*(cut(array, sizes, self.device) for array in (value, gradient, *slots)), strict=True)
            new = [
                self._updated(rule, piece[0], piece[1], piece[2:])
                for (rule, _), piece in zip(segments, pieces, strict=True)
            ]
            whole = [end_to_end(parts, self.device) for parts in zip(*new, strict=True)]
        else:
            whole = self._updated(segments[0][0] if segments else 0, value, gradient, slots)
        return whole[0], whole[1:]

    def _updated(self, rule: int, value: Any, gradient: Any, slots: Sequence[Any]) -> list[Any]:
        """The new value, and slots after it, by one rule; the first one's new scalars are kept."""
        arrays = self.optimizer.update(rule, value, gradient, [*slots, *self._read])
        if not self._next:
            self._next = arrays[1 + len(slots) :]
        return arrays[: 1 + len(slots)]

    def advance(self, correction: Correction = AS_IT_IS) -> None:
        """Store the scalars for the next step; called at the end of tracing a step, once blocks were updated."""
        import tensorflow as tf

        with tf.device(self.device):
            for variable, old, new in zip(self.variables, self._read, self._next, strict=False):
                variable.assign(correction.chosen(new, old))


def _with_slots(scalars: Scalars, initial: Any) -> tuple[Any, list[Any]]:
    """A variable that starts with `initial`, and its optimizer slots."""
    import tensorflow as tf

    starts = scalars.optimizer.captured.slot_starts
    with tf.device(scalars.device):
        filled = {start: _filled(initial, start) for start in starts}
        # Those that start alike share an array until they are assigned to.
        return tf.Variable(initial, trainable=False), [tf.Variable(filled[start], trainable=False) for start in starts]


def _filled(array: Any, number: float) -> Any:
    """An array like `array` that is filled with `number`; zeros are one call to the device, others are several."""
    import tensorflow as tf

    return tf.fill(array.shape, tf.cast(number, array.dtype)) if number else tf.zeros_like(array)


@final
class Block:
    """A flat array of values with its slots; a parameter server's parcel, or one replica's bundle of buckets."""

    def __init__(self, scalars: Scalars, initial: Any, segments: Segments = ()) -> None:
        """`segments` are those of `Optimizer.segments` for the shards that `initial` holds."""
        self.scalars = scalars
        self.device = scalars.device
        self.value, self.slots = _with_slots(scalars, initial)
        self._segments = segments
        self._of_pieces: list[Segments] = [segments]
        self._old: list[list[Any]] = []
        self._new: list[list[Any]] = []

    def read(self) -> Any:
        import tensorflow as tf

        with tf.device(self.device):
            return self.value.value()

    def apply(self, gradient: Any, correction: Correction = AS_IT_IS) -> None:
        """Update value and slots, once they have been read, with the mean gradient, flat."""
        self.update(0, gradient, correction)
        self.store()

    @property
    def old_value(self) -> Any:
        """The whole value as `begin` read it."""
        return self._old[0][0]

    def begin(self, sizes: Sequence[int] = ()) -> None:
        """Read value and slots, as pieces of `sizes` if there are several, to update each by itself."""
        import tensorflow as tf

        with tf.device(self.device):
            old = [each.value() for each in (self.value, *self.slots)]
        self._of_pieces = cut_segments(self._segments, sizes) if len(sizes) > 1 else [self._segments]
        pieces = zip(*(cut(each, sizes, self.device) for each in old), strict=True) if len(sizes) > 1 else [old]
        self._old, self._new = [list(each) for each in pieces], []

    def update(self, piece: int, gradient: Any, correction: Correction = AS_IT_IS) -> Any:
        """The new value of a piece after the mean gradient; pieces are updated in their order."""
        import tensorflow as tf

        assert piece == len(self._new)
        with tf.device(self.device):
            old = self._old[piece]
            segments = self._of_pieces[piece]
            value, slots = self.scalars.update(old[0], correction.scaled(gradient), old[1:], segments)
            new = [correction.chosen(after, before) for before, after in zip(old, (value, *slots), strict=True)]
        self._new.append(new)
        return new[0]

    def store(self) -> None:
        """Store the new values of all pieces."""
        import tensorflow as tf

        for variable, parts in zip((self.value, *self.slots), zip(*self._new, strict=True), strict=True):
            whole = end_to_end(parts, self.device)
            with tf.device(self.device):
                variable.assign(whole)


def cut_segments(segments: Segments, sizes: Sequence[int]) -> list[Segments]:
    """`segments` of a whole array as those of its pieces of `sizes`."""
    if not segments:
        return [()] * len(sizes)
    rest, pieces = list(segments), list[Segments]()
    for size in sizes:
        piece = []
        while size:
            rule, elements = rest.pop(0)
            taken = min(elements, size)
            piece.append((rule, taken))
            size -= taken
            if taken < elements:
                rest.insert(0, (rule, elements - taken))
        pieces.append(tuple(piece))
    return pieces


@final
class Rows:
    """A table of rows with its slots, read and updated by row; a shard of a sparse variable."""

    def __init__(self, scalars: Scalars, initial: Any, segments: Segments = ()) -> None:
        """`initial` has shape (rows, ...); `segments` are those of its one shard."""
        self.scalars = scalars
        self._segments = segments
        self.device = scalars.device
        self.shape = initial.shape
        self.value, self.slots = _with_slots(scalars, initial)

    def lookup(self, ids: Any) -> Any:
        """Rows `ids` (int, shape (n,)) of the table, shape (n, ...)."""
        import tensorflow as tf

        with tf.device(self.device):
            return self.value.sparse_read(ids)

    def summed(self, ids: Any, gradients: Any) -> RowGradient:
        """The `gradients` (n, ...) of rows `ids` (n,) added up by row.

        Only touched rows are kept where a zero gradient changes nothing (see `CapturedOptimizer.rows_suffice`);
        otherwise all rows are, as momentum and Adam ask for.
        """
        import tensorflow as tf

        with tf.device(self.device):
            if not self.scalars.optimizer.captured.rows_suffice:
                return RowGradient(None, tf.math.unsorted_segment_sum(gradients, ids, self.shape[0]))
            unique, places = tf.unique(ids)
            return RowGradient(unique, tf.math.unsorted_segment_sum(gradients, places, tf.size(unique)))

    def apply(self, gradient: RowGradient, correction: Correction = AS_IT_IS) -> None:
        """Update the rows of `gradient`, and their slots."""
        import tensorflow as tf

        with tf.device(self.device):
            held, ids = [self.value, *self.slots], gradient.ids
            old = [each.read_value() if ids is None else each.sparse_read(ids) for each in held]
            flat = [tf.reshape(each, [-1]) for each in old]
            gradients = correction.scaled(tf.reshape(gradient.values, [-1]))
            value, slots = self.scalars.update(flat[0], gradients, flat[1:], self._segments)
            for each, before, after in zip(held, old, (value, *slots), strict=True):
                new = correction.chosen(tf.reshape(after, tf.shape(before)), before)
                if ids is None:
                    each.assign(tf.reshape(new, self.shape))
                else:
                    each.scatter_update(tf.IndexedSlices(new, ids))
