"""Values with their optimizer state, living together on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from autosync.engine.optimizer import CapturedOptimizer

__all__ = ["Block", "Optimizer", "Rows", "Scalars"]


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
            self._variables = [
                tf.Variable(tf.cast(start, dtype), trainable=False)
                for start, dtype in zip(captured.scalar_starts, captured.scalar_dtypes, strict=True)
            ]
        self._read: list[Any] = []
        self._next: list[Any] = []

    def begin(self) -> None:
        """Read the scalars; called at the start of tracing a step."""
        import tensorflow as tf

        with tf.device(self.device):
            self._read = [each.read_value() for each in self._variables]
        self._next = []

    def update(self, value: Any, gradient: Any, slots: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The new value and slots after `gradient`; all are flat and of one length."""
        new_value, *rest = self.optimizer.update(value, gradient, *slots, *self._read)
        new_slots, new_scalars = rest[: len(slots)], rest[len(slots) :]
        if not self._next:
            self._next = new_scalars
        return new_value, new_slots

    def advance(self) -> None:
        """Store the scalars for the next step; called at the end of tracing a step, once blocks were updated."""
        import tensorflow as tf

        with tf.device(self.device):
            for variable, value in zip(self._variables, self._next, strict=False):
                variable.assign(value)


def _with_slots(scalars: Scalars, initial: Any) -> tuple[Any, list[Any]]:
    """A variable that starts with `initial`, and its optimizer slots beside it."""
    import tensorflow as tf

    with tf.device(scalars.device):
        value = tf.Variable(initial, trainable=False)
        starts = [tf.cast(start, initial.dtype) for start in scalars.optimizer.captured.slot_starts]
        return value, [tf.Variable(tf.fill(initial.shape, start), trainable=False) for start in starts]


@final
class Block:
    """A flat array of values with its slots; a parameter server's shard, or one replica's bucket."""

    def __init__(self, scalars: Scalars, initial: Any) -> None:
        self.scalars = scalars
        self.device = scalars.device
        self.value, self.slots = _with_slots(scalars, initial)

    def read(self) -> Any:
        import tensorflow as tf

        with tf.device(self.device):
            return self.value.read_value()

    def apply(self, gradient: Any) -> None:
        """Update value and slots with the mean gradient, flat."""
        import tensorflow as tf

        with tf.device(self.device):
            slots = [slot.read_value() for slot in self.slots]
            value, new_slots = self.scalars.update(self.value.read_value(), gradient, slots)
            self.value.assign(value)
            for slot, new in zip(self.slots, new_slots, strict=True):
                slot.assign(new)


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

    def apply(self, ids: Any, gradients: Any) -> None:
        """Update the table with `gradients` (n, ...) of rows `ids` (n,), which may repeat and are then summed.

        Only touched rows are changed where that is the optimizer's rule (see `CapturedOptimizer.rows_suffice`);
        otherwise all rows, with a gradient of zero, as momentum and Adam ask for.
        """
        import tensorflow as tf

        with tf.device(self.device):
            if self.scalars.optimizer.captured.rows_suffice:
                unique, places = tf.unique(ids)
                summed = tf.math.unsorted_segment_sum(gradients, places, tf.size(unique))
                self._apply_rows(unique, summed)
            else:
                self._apply_all(tf.math.unsorted_segment_sum(gradients, ids, self.shape[0]))

    def _apply_rows(self, ids: Any, gradients: Any) -> None:
        import tensorflow as tf

        shape = tf.shape(gradients)
        tables = [self.value, *self.slots]
        rows = [tf.reshape(table.sparse_read(ids), [-1]) for table in tables]
        value, slots = self.scalars.update(rows[0], tf.reshape(gradients, [-1]), rows[1:])
        for table, new in zip(tables, (value, *slots), strict=True):
            table.scatter_update(tf.IndexedSlices(tf.reshape(new, shape), ids))

    def _apply_all(self, gradients: Any) -> None:
        import tensorflow as tf

        tables = [self.value, *self.slots]
        flat = [tf.reshape(table.read_value(), [-1]) for table in tables]
        value, slots = self.scalars.update(flat[0], tf.reshape(gradients, [-1]), flat[1:])
        for table, new in zip(tables, (value, *slots), strict=True):
            table.assign(tf.reshape(new, self.shape))
