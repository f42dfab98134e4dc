"""What has come of a replica's pass while it is not known yet whether it counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.step.replica import Lookups, Replica, Results, id_dtype


@final
class PendingPass:
    """The rows, loss, gradients and state of the last pass of one replica, on its device."""

    def __init__(self, replica: Replica) -> None:
        import tensorflow as tf

        spec = replica.model.captured.spec
        self._device = replica.device
        self._ids: dict[int, Any] = {}
        self._gradients: dict[int, Any] = {}
        self._factors: dict[int, tuple[Any, Any]] = {}

        def variable(shape: Sequence[int | None], dtype: str) -> Any:
            start = tf.zeros([size or 0 for size in shape], dtype)
            return tf.Variable(start, trainable=False, shape=tf.TensorShape(shape))

        with tf.device(replica.device):
            for number, each in enumerate(spec.variables):
                if number in replica.factored:
                    rows, columns = each.shape
                    self._factors[number] = variable((None, rows), each.dtype), variable((None, columns), each.dtype)
                elif each.sparse:
                    self._ids[number] = variable((None,), id_dtype(each))
                    self._gradients[number] = variable((None, *each.shape[1:]), each.dtype)
                else:
                    self._gradients[number] = variable(each.shape, each.dtype)
            self._kept = [tf.Variable(each, trainable=False) for each in (*replica.state, *replica.metrics)]
            self._loss = tf.Variable(tf.zeros([], tf.float32), trainable=False)

    def put(self, found: Lookups, result: Results) -> None:
        """Keep what has come of a pass; called while the replica's function is traced."""
        import tensorflow as tf

        with tf.device(self._device):
            for number, ids in self._ids.items():
                ids.assign(found.ids[number])
            for number, gradient in self._gradients.items():
                gradient.assign(result.gradients[number])
            for number, factors in self._factors.items():
                for held, factor in zip(factors, result.factors[number], strict=True):
                    held.assign(factor)
            for held, new in zip(self._kept, result.kept, strict=True):
                held.assign(new)
            self._loss.assign(tf.cast(result.loss, tf.float32))

    def taken(self) -> tuple[Lookups, Results]:
        """What was kept last; called while a step is traced."""
        import tensorflow as tf

        with tf.device(self._device):
            ids = {number: each.read_value() for number, each in self._ids.items()}
            gradients = {number: each.read_value() for number, each in self._gradients.items()}
            factors = {number: (a.read_value(), b.read_value()) for number, (a, b) in self._factors.items()}
            kept = [each.read_value() for each in self._kept]
            return Lookups(ids, []), Results(self._loss.read_value(), gradients, factors, kept)
