"""Recorded passes: gradients, row numbers and losses of a few real steps, kept on replicas' devices to be replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from autosync.engine.step.placed import Start
from autosync.engine.step.replica import CompiledModel, Lookups, Replica, Results

RECORDED_STEPS = 2
"""Real steps that are recorded, and replayed in turn. Each takes a gradient's memory on every device."""


@dataclass(frozen=True)
class Turn:
    """Which recorded step is replayed: its `number`, an int32 scalar, and the slice of it, int32 (1,) each."""

    number: Any
    begins: Any
    ends: Any
    strides: Any

    @classmethod
    def of(cls, number: Any) -> Turn:
        """Called while a step is traced, once a replica: each tensor of it is cut by the same slice."""
        import tensorflow as tf

        return cls(number, tf.reshape(number, [1]), tf.reshape(number + 1, [1]), tf.constant([1], tf.int32))


@final
class Recorded:
    """One tensor of several steps, on a device; of sparse rows each step may have another number."""

    def __init__(self, device: str, tensors: Sequence[Any]) -> None:
        import tensorflow as tf

        alike = len({tuple(each.shape) for each in tensors}) == 1
        with tf.device(device):
            joined = tf.stack(tensors) if alike else tf.concat(tensors, 0)
            self._variable = tf.Variable(joined, trainable=False)
        self._ends = (
            None if alike else [sum(int(each.shape[0]) for each in tensors[:k]) for k in range(len(tensors) + 1)]
        )

    def at(self, turn: Turn) -> Any:
        """The tensor of step `turn`: a view where memory is aligned, no copy."""
        import tensorflow as tf

        whole = self._variable.read_value()
        if self._ends is None:  # what whole[turn] is, which would make both ends anew for each tensor
            return tf.strided_slice(whole, turn.begins, turn.ends, turn.strides, shrink_axis_mask=1)
        ends = tf.constant(self._ends, tf.int32)
        return whole[ends[turn.number] : ends[turn.number + 1]]


@final
class Recording:
    """Real steps of one replica, all at the initial values, with the batches that it would see first."""

    def __init__(self, device: str, steps: Sequence[tuple[Lookups, Results]]) -> None:
        def kept(tensors: Sequence[Any]) -> Recorded:
            return Recorded(device, tensors)

        self._device = device
        founds, results = [found for found, _ in steps], [each for _, each in steps]
        self._ids = {number: kept([each.ids[number] for each in founds]) for number in founds[0].ids}
        self._loss = kept([each.loss for each in results])
        gradients = results[0].gradients
        self._gradients = {number: kept([each.gradients[number] for each in results]) for number in gradients}
        self._factors = {
            number: tuple(kept([each.factors[number][side] for each in results]) for side in (0, 1))
            for number in results[0].factors
        }

    def lookups(self, turn: Turn) -> Lookups:
        """The rows that step `turn` touched."""
        import tensorflow as tf

        with tf.device(self._device):
            return Lookups({number: each.at(turn) for number, each in self._ids.items()}, [])

    def results(self, turn: Turn) -> Results:
        """The loss and the gradients of step `turn`."""
        import tensorflow as tf

        with tf.device(self._device):
            gradients = {number: each.at(turn) for number, each in self._gradients.items()}
            factors = {number: (a.at(turn), b.at(turn)) for number, (a, b) in self._factors.items()}
            return Results(self._loss.at(turn), gradients, factors)


@final
class Recordings:
    """The recordings of a session: made when a strategy first asks for them, and shared by all that ask for the same.

    Only those of one choice of factored variables are kept.
    """

    def __init__(self, model: CompiledModel, start: Start) -> None:
        self._model = model
        self._start = start
        self._factored: frozenset[int] = frozenset()
        self._of_device: dict[str, Recording] = {}

    def of(self, replicas: Sequence[Replica]) -> list[Recording]:
        """The recordings on the devices of `replicas`, which have the same factored variables."""
        if replicas[0].factored != self._factored:
            self._of_device = {}
            self._factored = replicas[0].factored
        missing = [each for each in replicas if each.device not in self._of_device]
        if missing:
            self._record(missing)
        return [self._of_device[each.device] for each in replicas]

    def _record(self, replicas: Sequence[Replica]) -> None:
        import tensorflow as tf

        # Replicas of its own, so that those of the strategy begin where they always do.
        own = [
            Replica(
                self._model,
                each.number,
                each.device,
                self._start.state(each.device),
                each.factored,
                self._start.metrics(each.device),
            )
            for each in replicas
        ]
        record = tf.function(lambda: [self._pass(each) for each in own], autograph=False)
        steps = [record() for _ in range(RECORDED_STEPS)]
        for place, replica in enumerate(own):
            taken = [
                (Lookups(ids, []), Results(loss, gradients, factors))
                for ids, loss, gradients, factors in (each[place] for each in steps)
            ]
            self._of_device[replica.device] = Recording(replica.device, taken)

    def _pass(self, replica: Replica) -> tuple[dict[int, Any], Any, dict[int, Any], dict[int, tuple[Any, Any]]]:
        """A real pass of `replica` at the initial values: touched rows, loss, gradients and factors."""
        import tensorflow as tf

        found = replica.look_up(batch := replica.next_batch())
        with tf.device(replica.device):
            values = [
                tf.gather(value, found.ids[number]) if number in found.ids else value
                for number, value in enumerate(self._start.values(replica.device))
            ]
        results = replica.run(values, batch, found)
        return dict(found.ids), results.loss, dict(results.gradients), dict(results.factors)
