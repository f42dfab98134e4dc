"""What passes are to take, known on the replicas' devices some steps ahead: then a step is given nothing by the client.

To give a step a tensor, every worker asks the client for it before its pass can begin: a message there and back.
"""

from collections.abc import Sequence
from typing import final

import numpy as np

from autosync.engine.step.pace import Duration, Pacing
from autosync.engine.step.replica import Replica

STEPS_AHEAD = 256
"""Steps whose passes are drawn at once. The first of them takes a few milliseconds more."""


@final
class Ahead:
    """The seconds of coming passes, a row on each replica's device, and which of them is next."""

    def __init__(self, pacing: Pacing, replicas: Sequence[Replica]) -> None:
        import tensorflow as tf

        self._pacing = pacing
        self._devices = [each.device for each in replicas]
        self._seconds, self._turns = [], []
        self._next: tuple[int, int] | None = None
        self._left = 0
        for device in self._devices:
            with tf.device(device):
                self._seconds.append(tf.Variable(tf.zeros([STEPS_AHEAD], tf.float64), trainable=False))
                self._turns.append(tf.Variable(tf.constant(0, tf.int32), trainable=False))

    def ready(self, seed: int, step: int) -> None:
        """Have the next step that takes a `duration` be number `step`, as drawn by `seed`."""
        if not self._left or self._next != (seed, step):
            self._draw(seed, step)
            self._left = STEPS_AHEAD
        self._next = seed, step + 1
        self._left -= 1

    def duration(self, replica: int) -> Duration:
        """How long the next pass of `replica` takes; called while a step is traced, once for each."""
        import tensorflow as tf

        with tf.device(self._devices[replica]):
            turn = self._turns[replica].read_value()
            self._turns[replica].assign_add(1)
            return Duration(self._seconds[replica].read_value(), None, turn)

    def _draw(self, seed: int, step: int) -> None:
        drawn = np.stack([self._pacing.seconds(seed, step + each) for each in range(STEPS_AHEAD)], 1)
        for seconds, turn, own in zip(self._seconds, self._turns, drawn, strict=True):
            seconds.assign(own)
            turn.assign(0)
        for turn in self._turns:
            turn.numpy()  # behind the assignments, which a worker only queues
