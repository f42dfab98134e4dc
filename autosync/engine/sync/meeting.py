"""What replicas that meet make of the mean of their values: that itself, or what moves towards it.

A centre and its speed are on every replica, for its own values, with the same bits on all.
"""

from collections.abc import Sequence
from typing import Any, Protocol, final

from autosync.engine.state import Block, Rows
from autosync.spec import BlockMomentum, Elastic, Rhythm


class Meeting(Protocol):
    """Meetings of one array of one replica."""

    @property
    def variables(self) -> Sequence[Any]:
        """What it remembers."""
        ...

    def begin(self) -> None:
        """Queue on the device that all begins anew from the values that the replica has now."""
        ...

    def met(self, mean: Any) -> Any:
        """What the replica goes on with, while a step is traced, on its device."""
        ...


@final
class AtTheMean:
    variables: Sequence[Any] = ()

    def begin(self) -> None:
        """Do nothing: nothing is remembered."""

    def met(self, mean: Any) -> Any:
        return mean


@final
class WithMomentum:
    """See `autosync.spec.BlockMomentum`."""

    def __init__(self, held: Block | Rows, block: BlockMomentum) -> None:
        import tensorflow as tf

        self._held = held
        self._block = block
        with tf.device(held.device):
            self._centre = tf.Variable(held.value.read_value(), trainable=False)
            self._speed = tf.Variable(tf.zeros_like(held.value.read_value()), trainable=False)
        self.variables = (self._centre, self._speed)

    def begin(self) -> None:
        import tensorflow as tf

        with tf.device(self._held.device):
            self._centre.assign(self._held.value.read_value())
            self._speed.assign(tf.zeros_like(self._centre.read_value()))

    def met(self, mean: Any) -> Any:
        centre = self._centre.read_value()
        speed = self._block.momentum * self._speed.read_value() + self._block.rate * (mean - centre)
        reached = centre + speed
        self._speed.assign(speed)
        self._centre.assign(reached)
        return reached + self._block.momentum * speed if self._block.nesterov else reached


@final
class Pulled:
    """See `autosync.spec.Elastic`."""

    def __init__(self, held: Block | Rows, elastic: Elastic, replicas: int) -> None:
        import tensorflow as tf

        self._held = held
        self._pull = elastic.pull
        self._replicas = replicas
        with tf.device(held.device):
            self._centre = tf.Variable(held.value.read_value(), trainable=False)
        self.variables = (self._centre,)

    def begin(self) -> None:
        import tensorflow as tf

        with tf.device(self._held.device):
            self._centre.assign(self._held.value.read_value())

    def met(self, mean: Any) -> Any:
        centre, value = self._centre.read_value(), self._held.value.read_value()
        self._centre.assign(centre + self._pull * self._replicas * (mean - centre))
        return value - self._pull * (value - centre)


def meeting(rhythm: Rhythm, held: Block | Rows, replicas: int) -> Meeting:
    """How one of `replicas` meets the others by `rhythm`, with what it holds there."""
    if rhythm.block is not None:
        return WithMomentum(held, rhythm.block)
    return AtTheMean() if rhythm.elastic is None else Pulled(held, rhythm.elastic, replicas)
