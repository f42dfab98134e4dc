"""Values with their optimizer slots, on one device."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import tensorflow as tf

from autosync.engine.tensorflow.arrays import cut, end_to_end
from autosync.engine.tensorflow.capture.optimizer import CapturedOptimizer
from autosync.layout.shards import Shard

Segments: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs (number of an update rule, number of consecutive elements that it updates); () if rule 0 updates all."""


@dataclass(frozen=True)
class Correction:
    """The joint effect of all gradients on each update (see `gradient_rule`); a field is None if there is no effect.

    `factor` (scalar float32) scales every gradient. If `allowed` (scalar bool) is false, nothing is updated. When the
    loss scale changes, the next step's gradients are `growth` (scalar float32) times as large as this step's.
    """

    factor: Any = None
    allowed: Any = None
    growth: Any = None

    def scale(self, gradient: Any) -> Any:
        return gradient if self.factor is None else gradient * tf.cast(self.factor, gradient.dtype)

    def choose(self, new: Any, old: Any) -> Any:
        return new if self.allowed is None else tf.where(self.allowed, new, old)


AS_IT_IS = Correction()


@dataclass(frozen=True)
class RowGradient:
    """A mean gradient by row: `values` (n, ...) of the distinct rows `ids` (n,), or of all rows if `ids` is None."""

    ids: Any
    values: Any


@final
class Optimizer:
    """A captured optimizer, loaded into this process."""

    def __init__(self, captured: CapturedOptimizer, rule_of: Sequence[int] = ()) -> None:
        """`rule_of`, if not empty, has the rule number of every variable of the model."""
        self.captured = captured
        self._updates: list[Callable[..., list[Any]]] = [rule.callable() for rule in (captured.update, *captured.rules)]
        self._rule_of = tuple(rule_of)

    def segments(self, shards: Sequence[Shard]) -> Segments:
        """Return the segments of equal rules in `shards`, laid end to end; empty if all variables share one rule."""
        if not self._rule_of:
            return ()
        rules = [(self._rule_of[shard.slice.variable_index], shard.elements) for shard in shards]
        groups = itertools.groupby(rules, key=lambda pair: pair[0])
        return tuple((rule, sum(elements for _, elements in group)) for rule, group in groups)

    def update(self, rule: int, value: Any, gradient: Any, state: Sequence[Any]) -> list[Any]:
        """Return the new value, slots and scalars of flat arrays that one rule updates."""
        return self._updates[rule](value, gradient, *state)


@final
class Scalars:
    """The optimizer's scalars (iteration, learning rate) on one device, shared by all blocks on that device.

    Within a step every block reads the old scalars, and `advance` stores the new scalars of the first updated block.
    """

    def __init__(self, optimizer: Optimizer, device: str) -> None:
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
        """Read the scalars. Call this at the start of tracing a step."""
        with tf.device(self.device):
            self._read = [variable.read_value() for variable in self.variables]
        self._next = []

    def update(self, value: Any, gradient: Any, slots: Sequence[Any], segments: Segments = ()) -> tuple[Any, list[Any]]:
        """Return the new value and slots after `gradient`, by the rules of `segments`; all flat and equally long."""
        if len(segments) > 1:
            sizes = [size for _, size in segments]
            pieces = zip(*(cut(array, sizes, self.device) for array in (value, gradient, *slots)), strict=True)
            new = [
                self._update_by_rule(rule, piece[0], piece[1], piece[2:])
                for (rule, _), piece in zip(segments, pieces, strict=True)
            ]
            whole = [end_to_end(parts, self.device) for parts in zip(*new, strict=True)]
        else:
            whole = self._update_by_rule(segments[0][0] if segments else 0, value, gradient, slots)
        return whole[0], whole[1:]

    def _update_by_rule(self, rule: int, value: Any, gradient: Any, slots: Sequence[Any]) -> list[Any]:
        """Return the new value and then the slots, by one rule; keep the scalars if this is the step's first update."""
        arrays = self.optimizer.update(rule, value, gradient, [*slots, *self._read])
        if not self._next:
            self._next = arrays[1 + len(slots) :]
        return arrays[: 1 + len(slots)]

    def advance(self, correction: Correction = AS_IT_IS) -> None:
        """Store the scalars for the next step. Call this at the end of tracing a step, after the blocks' updates."""
        with tf.device(self.device):
            for variable, old, new in zip(self.variables, self._read, self._next, strict=False):
                variable.assign(correction.choose(new, old))


def _with_slots(scalars: Scalars, initial: Any) -> tuple[Any, list[Any]]:
    """Create a variable with the value `initial`, and its optimizer slots."""
    starts = scalars.optimizer.captured.slot_starts
    with tf.device(scalars.device):
        arrays = {start: _full_like(initial, start) for start in starts}
        # Slots with equal initial values share an array until they are assigned to.
        return tf.Variable(initial, trainable=False), [tf.Variable(arrays[start], trainable=False) for start in starts]


def _full_like(array: Any, number: float) -> Any:
    """Create an array like `array` filled with `number`; zeros need one call to the device, other numbers several."""
    return tf.fill(array.shape, tf.cast(number, array.dtype)) if number else tf.zeros_like(array)


@final
class ValueBlock:
    """A flat array of values with its slots: a parameter server's parcel, or one replica's bundle of buckets."""

    def __init__(self, scalars: Scalars, initial: Any, segments: Segments = ()) -> None:
        """`segments` are the `Optimizer.segments` of the shards in `initial`."""
        self.scalars = scalars
        self.device = scalars.device
        self.value, self.slots = _with_slots(scalars, initial)
        self._segments = segments
        self._of_pieces: list[Segments] = [segments]
        self._old: list[list[Any]] = []
        self._new: list[list[Any]] = []

    def read(self) -> Any:
        with tf.device(self.device):
            return self.value.value()

    def apply(self, gradient: Any, correction: Correction = AS_IT_IS) -> None:
        """Update value and slots with the flat mean gradient, after `begin`."""
        self.update(0, gradient, correction)
        self.store()

    @property
    def old_value(self) -> Any:
        """The whole value that `begin` read."""
        return self._old[0][0]

    def begin(self, sizes: Sequence[int] = ()) -> None:
        """Read value and slots; with several `sizes`, cut them into pieces that are updated one by one."""
        with tf.device(self.device):
            old = [variable.value() for variable in (self.value, *self.slots)]
        self._of_pieces = cut_segments(self._segments, sizes) if len(sizes) > 1 else [self._segments]
        pieces = zip(*(cut(array, sizes, self.device) for array in old), strict=True) if len(sizes) > 1 else [old]
        self._old, self._new = [list(arrays) for arrays in pieces], []

    def update(self, piece: int, gradient: Any, correction: Correction = AS_IT_IS) -> Any:
        """Update a piece with the mean gradient and return its new value. Call this in the order of pieces."""
        assert piece == len(self._new)
        with tf.device(self.device):
            old = self._old[piece]
            segments = self._of_pieces[piece]
            value, slots = self.scalars.update(old[0], correction.scale(gradient), old[1:], segments)
            new = [correction.choose(after, before) for before, after in zip(old, (value, *slots), strict=True)]
        self._new.append(new)
        return new[0]

    def store(self) -> None:
        """Store the new values of all pieces."""
        for variable, parts in zip((self.value, *self.slots), zip(*self._new, strict=True), strict=True):
            whole = end_to_end(parts, self.device)
            with tf.device(self.device):
                variable.assign(whole)


def cut_segments(segments: Segments, sizes: Sequence[int]) -> list[Segments]:
    """Cut the `segments` of a whole array into the segments of its pieces of `sizes`."""
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
class RowTable:
    """A table with its slots, read and updated by row: a shard of a sparse variable."""

    def __init__(self, scalars: Scalars, initial: Any, segments: Segments = ()) -> None:
        """`initial` has shape (rows, ...); `segments` are the `Optimizer.segments` of its one shard."""
        self.scalars = scalars
        self._segments = segments
        self.device = scalars.device
        self.shape = initial.shape
        self.value, self.slots = _with_slots(scalars, initial)

    def lookup(self, ids: Any) -> Any:
        """Return the rows `ids` (int, shape (n,)) of the table, shape (n, ...)."""
        with tf.device(self.device):
            return self.value.sparse_read(ids)

    def sum_by_row(self, ids: Any, gradients: Any) -> RowGradient:
        """Sum the `gradients` (n, ...) of rows `ids` (n,) by row.

        If a zero gradient changes nothing (see `CapturedOptimizer.rows_suffice`), the result has only the touched rows.
        Otherwise, as for momentum and Adam, it has all rows.
        """
        with tf.device(self.device):
            if not self.scalars.optimizer.captured.rows_suffice:
                return RowGradient(None, tf.math.unsorted_segment_sum(gradients, ids, self.shape[0]))
            unique, places = tf.unique(ids)
            return RowGradient(unique, tf.math.unsorted_segment_sum(gradients, places, tf.size(unique)))

    def apply(self, gradient: RowGradient, correction: Correction = AS_IT_IS) -> None:
        """Update the rows of `gradient`, and their slots."""
        with tf.device(self.device):
            variables, ids = [self.value, *self.slots], gradient.ids
            old = [variable.read_value() if ids is None else variable.sparse_read(ids) for variable in variables]
            flat = [tf.reshape(array, [-1]) for array in old]
            gradients = correction.scale(tf.reshape(gradient.values, [-1]))
            value, slots = self.scalars.update(flat[0], gradients, flat[1:], self._segments)
            for variable, before, after in zip(variables, old, (value, *slots), strict=True):
                new = correction.choose(tf.reshape(after, tf.shape(before)), before)
                if ids is None:
                    variable.assign(tf.reshape(new, self.shape))
                else:
                    variable.scatter_update(tf.IndexedSlices(new, ids))
