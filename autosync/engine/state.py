"""Values with their optimizer state, living together on one device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from autosync.engine.arrays import cut, end_to_end
from autosync.engine.capture.optimizer import CapturedOptimizer


@dataclass(frozen=True)
class Correction:
    """What all gradients together ask of each update (see `gradient_rule`): None where they ask nothing.

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

    def __init__(self, captured: CapturedOptimizer) -> None:
        self.captured = captured
        self.update: Callable[..., list[Any]] = captured.update.callable()


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

    def update(self, value: Any, gradient: Any, slots: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The new value and slots after `gradient`; all are flat and of one length."""
        new_value, *rest = self.optimizer.update(value, gradient, *slots, *self._read)
        new_slots, new_scalars = rest[: len(slots)], rest[len(slots) :]
        if not self._next:
            self._next = new_scalars
        return new_value, new_slots

    def advance(self, correction: Correction = AS_IT_IS) -> None:
        """Store the scalars for the next step; called at the end of tracing a step, once blocks were updated."""
        import tensorflow as tf

        with tf.device(self.device):
            for variable, old, new in zip(self.variables, self._read, self._next, strict=False):
                variable.assign(correction.chosen(new, old))


def _with_slots(scalars: Scalars, initial: Any) -> tuple[Any, list[Any]]:
    """A variable that starts with `initial`, and its optimizer slots beside it."""
    import tensorflow as tf

    starts = scalars.optimizer.captured.slot_starts
    with tf.device(scalars.device):
        filled = {start: _filled(initial, start) for start in starts}
        # Those that start alike share an array until they are assigned to.
        return tf.Variable(initial, trainable=False), [tf.Variable(filled[start], trainable=False) for start in starts]


def _filled(array: Any, number: float) -> Any:
    """`number` in place of all elements of `array`; zeros are one call to the device, others are several."""
    import tensorflow as tf

    return tf.fill(array.shape, tf.cast(number, array.dtype)) if number else tf.zeros_like(array)


@final
class Block:
    """A flat array of values with its slots; a parameter server's parcel, or one replica's bundle of buckets."""

    def __init__(self, scalars: Scalars, initial: Any) -> None:
        self.scalars = scalars
        self.device = scalars.device
        self.value, self.slots = _with_slots(scalars, initial)
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
        pieces = zip(*(cut(each, sizes, self.device) for each in old), strict=True) if len(sizes) > 1 else [old]
        self._old, self._new = [list(each) for each in pieces], []

    def update(self, piece: int, gradient: Any, correction: Correction = AS_IT_IS) -> Any:
        """The new value of a piece after the mean gradient; pieces are updated in their order."""
        import tensorflow as tf

        assert piece == len(self._new)
        with tf.device(self.device):
            old = self._old[piece]
            value, slots = self.scalars.update(old[0], correction.scaled(gradient), old[1:])
            new = [correction.chosen(after, before) for before, after in zip(old, (value, *slots), strict=True)]
        self._new.append(new)
        return new[0]

    def store(self) -> None:
        """Keep what all pieces have become."""
        import tensorflow as tf

        for variable, parts in zip((self.value, *self.slots), zip(*self._new, strict=True), strict=True):
            whole = end_to_end(parts, self.device)
            with tf.device(self.device):
                variable.assign(whole)


@final
class Rows:
    """A table of rows with its slots, read and updated by row; a shard of a sparse variable."""

    def __init__(self, scalars: Scalars, initial: Any) -> None:
        """`initial` has shape (rows, ...)."""
        self.scalars = scalars
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
            value, slots = self.scalars.update(flat[0], correction.scaled(tf.reshape(gradient.values, [-1])), flat[1:])
            for each, before, after in zip(held, old, (value, *slots), strict=True):
                new = correction.chosen(tf.reshape(after, tf.shape(before)), before)
                if ids is None:
                    each.assign(tf.reshape(new, self.shape))
                else:
                    each.scatter_update(tf.IndexedSlices(new, ids))
