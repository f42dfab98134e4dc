"""Records the gradients, row numbers and losses of a few real steps on the replicas' devices, and replays them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.step.placed_model import Start
from autosync.engine.tensorflow.step.replica import CompiledModel, Lookups, Replica, Results

RECORDED_STEPS = 2
"""The number of real steps that are recorded and replayed in turn. Each takes the memory of a gradient on every device.
"""


@dataclass(frozen=True)
class Turn:
    """The number of the recorded step to replay, an int32 scalar, and the slice of this step, tensors of int32 (1,)."""

    number: tf.Tensor
    begins: Any
    ends: Any
    strides: Any

    @classmethod
    def of(cls, number: tf.Tensor) -> Turn:
        """Build the slice. Call this once a replica while a step is traced, because all its tensors share the slice."""
        return cls(number, tf.reshape(number, [1]), tf.reshape(number + 1, [1]), tf.constant([1], tf.int32))


@final
class Recorded:
    """One tensor of several recorded steps, on a device. The number of sparse rows may differ between steps."""

    def __init__(self, device: str, tensors: Sequence[tf.Tensor]) -> None:
        alike = len({tuple(tensor.shape) for tensor in tensors}) == 1
        with tf.device(device):
            joined = tf.stack(tensors) if alike else tf.concat(tensors, 0)
            self._variable = tf.Variable(joined, trainable=False)
        self._ends = (
            None if alike else [sum(int(tensor.shape[0]) for tensor in tensors[:k]) for k in range(len(tensors) + 1)]
        )

    def at(self, turn: Turn) -> Any:
        """Return the tensor of step `turn`: a view without a copy if the memory is aligned."""
        whole = self._variable.read_value()
        if self._ends is None:  # like whole[turn], which would build both ends again for each tensor
            return tf.strided_slice(whole, turn.begins, turn.ends, turn.strides, shrink_axis_mask=1)
        ends = tf.constant(self._ends, tf.int32)
        return whole[ends[turn.number] : ends[turn.number + 1]]


@final
class Recording:
    """Real steps of one replica, all at the initial values, on the first batches that the replica would draw."""

    def __init__(self, device: str, steps: Sequence[tuple[Lookups, Results]]) -> None:
        def record(tensors: Sequence[tf.Tensor]) -> Recorded:
            return Recorded(device, tensors)

        self._device = device
        lookups, results = [touched for touched, _ in steps], [result for _, result in steps]
        self._ids = {number: record([touched.ids[number] for touched in lookups]) for number in lookups[0].ids}
        self._loss = record([result.loss for result in results])
        gradients = results[0].gradients
        self._gradients = {number: record([result.gradients[number] for result in results]) for number in gradients}
        self._factors = {
            number: tuple(record([result.factors[number][side] for result in results]) for side in (0, 1))
            for number in results[0].factors
        }

    def lookups(self, turn: Turn) -> Lookups:
        """Return the rows that step `turn` touched."""
        with tf.device(self._device):
            return Lookups({number: ids.at(turn) for number, ids in self._ids.items()}, [])

    def results(self, turn: Turn) -> Results:
        """Return the loss and the gradients of step `turn`."""
        with tf.device(self._device):
            gradients = {number: gradient.at(turn) for number, gradient in self._gradients.items()}
            factors = {number: (a.at(turn), b.at(turn)) for number, (a, b) in self._factors.items()}
            return Results(self._loss.at(turn), gradients, factors)


@final
class Recordings:
    """The recordings of a session. They are made on first use and shared by strategies with the same factored
    variables.

    Only the recordings for one choice of factored variables are kept.
    """

    def __init__(self, model: CompiledModel, start: Start) -> None:
        self._model = model
        self._start = start
        self._factored: frozenset[int] = frozenset()
        self._of_device: dict[str, Recording] = {}

    def of(self, replicas: Sequence[Replica]) -> list[Recording]:
        """Return the recordings on the devices of `replicas`, which have the same factored variables."""
        if replicas[0].factored != self._factored:
            self._of_device = {}
            self._factored = replicas[0].factored
        missing = [replica for replica in replicas if replica.device not in self._of_device]
        if missing:
            self._record(missing)
        return [self._of_device[replica.device] for replica in replicas]

    def _record(self, replicas: Sequence[Replica]) -> None:
        # Separate replicas record, so that the state of the strategy's replicas does not advance.
        recorders = [
            Replica(
                self._model,
                replica.number,
                replica.device,
                self._start.state(replica.device),
                replica.factored,
                self._start.metrics(replica.device),
            )
            for replica in replicas
        ]
        record = tf.function(lambda: [self._pass(replica) for replica in recorders], autograph=False)
        steps = [record() for _ in range(RECORDED_STEPS)]
        for place, replica in enumerate(recorders):
            passes = [
                (Lookups(ids, []), Results(loss, gradients, factors))
                for ids, loss, gradients, factors in (step[place] for step in steps)
            ]
            self._of_device[replica.device] = Recording(replica.device, passes)

    def _pass(self, replica: Replica) -> tuple[dict[int, Any], Any, dict[int, Any], dict[int, tuple[Any, Any]]]:
        """Run a real pass of `replica` at the initial values; return touched rows, loss, gradients and factors."""
        lookups = replica.look_up(batch := replica.next_batch())
        with tf.device(replica.device):
            values = [
                tf.gather(value, lookups.ids[number]) if number in lookups.ids else value
                for number, value in enumerate(self._start.values(replica.device))
            ]
        results = replica.run(values, batch, lookups)
        return dict(lookups.ids), results.loss, dict(results.gradients), dict(results.factors)
