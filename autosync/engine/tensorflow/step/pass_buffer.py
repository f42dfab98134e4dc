"""Buffers the results of a replica's pass until the step decides whether to use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.step.replica import Lookups, Replica, Results, id_dtype


@final
class PassBuffer:
    """The rows, loss, gradients and state of the last pass of one replica, on the replica's device."""

    def __init__(self, replica: Replica) -> None:
        spec = replica.model.captured.spec
        self._device = replica.device
        self._ids: dict[int, Any] = {}
        self._gradients: dict[int, Any] = {}
        self._factors: dict[int, tuple[Any, Any]] = {}

        def variable(shape: Sequence[int | None], dtype: str) -> Any:
            start = tf.zeros([size or 0 for size in shape], dtype)
            return tf.Variable(start, trainable=False, shape=tf.TensorShape(shape))

        with tf.device(replica.device):
            for number, of_model in enumerate(spec.variables):
                dtype = of_model.dtype
                if number in replica.factored:
                    rows, columns = of_model.shape
                    self._factors[number] = variable((None, rows), dtype), variable((None, columns), dtype)
                elif of_model.sparse:
                    self._ids[number] = variable((None,), id_dtype(of_model))
                    self._gradients[number] = variable((None, *of_model.shape[1:]), dtype)
                else:
                    self._gradients[number] = variable(of_model.shape, dtype)
            self._kept = [tf.Variable(value, trainable=False) for value in (*replica.state, *replica.metrics)]
            self._loss = tf.Variable(tf.zeros([], tf.float32), trainable=False)

    def put(self, lookups: Lookups, result: Results) -> None:
        """Store the results of a pass. Call this while the replica's function is traced."""
        with tf.device(self._device):
            for number, ids in self._ids.items():
                ids.assign(lookups.ids[number])
            for number, gradient in self._gradients.items():
                gradient.assign(result.gradients[number])
            for number, factors in self._factors.items():
                for held, factor in zip(factors, result.factors[number], strict=True):
                    held.assign(factor)
            for held, new in zip(self._kept, result.kept, strict=True):
                held.assign(new)
            self._loss.assign(tf.cast(result.loss, tf.float32))

    def take(self) -> tuple[Lookups, Results]:
        """Read the stored results. Call this while a step is traced."""
        with tf.device(self._device):
            ids = {number: rows.read_value() for number, rows in self._ids.items()}
            gradients = {number: gradient.read_value() for number, gradient in self._gradients.items()}
            factors = {number: (a.read_value(), b.read_value()) for number, (a, b) in self._factors.items()}
            kept = [held.read_value() for held in self._kept]
            return Lookups(ids, []), Results(self._loss.read_value(), gradients, factors, kept)
