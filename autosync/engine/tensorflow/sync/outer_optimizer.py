"""Outer optimizers: the values with which replicas continue after they have averaged their values (local SGD).

Every replica has its own centre and speed for its values, with the same bits on all replicas.
"""

from collections.abc import Sequence
from typing import Any, Protocol, final

import tensorflow as tf

from autosync.engine.tensorflow.state import RowTable, ValueBlock
from autosync.spec import BlockMomentum, Elastic, Rhythm


class OuterOptimizer(Protocol):
    """The outer optimizer of one array of one replica."""

    @property
    def variables(self) -> Sequence[Any]:
        """The variables of its memory."""
        ...

    def begin(self) -> None:
        """Reset the memory to the replica's present values. This only queues the assignments on the device."""
        ...

    def step(self, mean: tf.Tensor) -> Any:
        """While a step is traced, return the value with which the replica continues, on the replica's device."""
        ...


@final
class PlainAveraging:
    """Continues with the mean itself."""

    variables: Sequence[Any] = ()

    def begin(self) -> None:
        """Do nothing, because there is no memory."""

    def step(self, mean: tf.Tensor) -> Any:
        return mean


@final
class MomentumAveraging:
    """See `autosync.spec.BlockMomentum`."""

    def __init__(self, held: ValueBlock | RowTable, block: BlockMomentum) -> None:
        self._held = held
        self._block = block
        with tf.device(held.device):
            self._centre = tf.Variable(held.value.read_value(), trainable=False)
            self._speed = tf.Variable(tf.zeros_like(held.value.read_value()), trainable=False)
        self.variables = (self._centre, self._speed)

    def begin(self) -> None:
        with tf.device(self._held.device):
            self._centre.assign(self._held.value.read_value())
            self._speed.assign(tf.zeros_like(self._centre.read_value()))

    def step(self, mean: tf.Tensor) -> Any:
        centre = self._centre.read_value()
        speed = self._block.momentum * self._speed.read_value() + self._block.rate * (mean - centre)
        reached = centre + speed
        self._speed.assign(speed)
        self._centre.assign(reached)
        return reached + self._block.momentum * speed if self._block.nesterov else reached


@final
class ElasticAveraging:
    """See `autosync.spec.Elastic`."""

    def __init__(self, held: ValueBlock | RowTable, elastic: Elastic, replicas: int) -> None:
        self._held = held
        self._pull = elastic.pull
        self._replicas = replicas
        with tf.device(held.device):
            self._centre = tf.Variable(held.value.read_value(), trainable=False)
        self.variables = (self._centre,)

    def begin(self) -> None:
        with tf.device(self._held.device):
            self._centre.assign(self._held.value.read_value())

    def step(self, mean: tf.Tensor) -> Any:
        centre, value = self._centre.read_value(), self._held.value.read_value()
        self._centre.assign(centre + self._pull * self._replicas * (mean - centre))
        return value - self._pull * (value - centre)


def outer_optimizer(rhythm: Rhythm, held: ValueBlock | RowTable, replicas: int) -> OuterOptimizer:
    """Return the outer optimizer of `rhythm` for the values `held` of one of `replicas` replicas."""
    if rhythm.block is not None:
        return MomentumAveraging(held, rhythm.block)
    return PlainAveraging() if rhythm.elastic is None else ElasticAveraging(held, rhythm.elastic, replicas)
