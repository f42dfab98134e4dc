"""Keeps the durations of coming passes on the replicas' devices, so that a step gets no inputs from the client.

If a step has an input tensor, every worker must fetch it from the client before a pass can begin, which costs a round
trip.
"""

from collections.abc import Sequence
from typing import final

import numpy as np
import tensorflow as tf

from autosync.engine.core.pacing import Pacing
from autosync.engine.tensorflow.step.pace import Duration
from autosync.engine.tensorflow.step.replica import Replica

STEPS_AHEAD = 256
"""The number of steps whose durations are drawn at once. The first of these steps takes a few milliseconds more."""


@final
class PrefetchedDurations:
    """The seconds of coming passes, a row on each replica's device, and the index of the next pass."""

    def __init__(self, pacing: Pacing, replicas: Sequence[Replica]) -> None:
        self._pacing = pacing
        self._devices = [replica.device for replica in replicas]
        self._seconds, self._turns = [], []
        self._next: tuple[int, int] | None = None
        self._left = 0
        for device in self._devices:
            with tf.device(device):
                self._seconds.append(tf.Variable(tf.zeros([STEPS_AHEAD], tf.float64), trainable=False))
                self._turns.append(tf.Variable(tf.constant(0, tf.int32), trainable=False))

    def prepare(self, seed: int, step: int, count: int = 1) -> None:
        """Prepare the durations of `count` steps from `step` on, as drawn by `seed`, for the steps that come next."""
        if self._left < count or self._next != (seed, step):
            self._draw(seed, step)
            self._left = STEPS_AHEAD
        self._next = seed, step + count
        self._left -= count

    def duration(self, replica: int) -> Duration:
        """Return the duration of the next pass of `replica`. Call this once a replica while a step is traced."""
        with tf.device(self._devices[replica]):
            turn = self._turns[replica].read_value()
            self._turns[replica].assign_add(1)
            return Duration(self._seconds[replica].read_value(), None, turn)

    def _draw(self, seed: int, step: int) -> None:
        drawn = np.stack([self._pacing.seconds(seed, step + ahead) for ahead in range(STEPS_AHEAD)], 1)
        for seconds, turn, of_replica in zip(self._seconds, self._turns, drawn, strict=True):
            seconds.assign(of_replica)
            turn.assign(0)
        for turn in self._turns:
            turn.numpy()  # waits for the assignments, which a worker only queues
