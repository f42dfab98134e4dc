"""Training on a strategy, in the process whose TensorFlow has the devices: the client, or the caller's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy.typing as npt

from autosync.engine.training.reading_ahead import Offer, Reader, Spec
from autosync.spec import Strategy

if TYPE_CHECKING:
    from autosync.engine.step.realize import Session
    from autosync.engine.step.step_state import StepState

Array = npt.NDArray[Any]


class Runner(Protocol):
    """What runs a trainer's steps, wherever the workers are."""

    def on(self, batches: Sequence[Sequence[Any]], counted: Sequence[int]) -> float:
        """Take one step on flat batches, one a replica, of which `counted` examples count; the mean loss before it."""
        ...

    def own(self) -> float:
        """Take one step on the model's own synthetic batches; the mean loss before it."""
        ...

    def open_feed(self, read: Reader, specs: Sequence[Spec]) -> None:
        """Begin a pass over data that workers read themselves."""
        ...

    def read(self) -> int:
        """Let every replica read its next batch; how many examples they have together, 0 when all shards have ended."""
        ...

    def on_read(self) -> float:
        """Take one step on what was read last; the mean loss before it."""
        ...

    def take_metrics(self) -> tuple[Array, ...]:
        """The states of the model's metrics, added up over replicas, which then begin anew."""
        ...

    def state(self) -> StepState:
        """Everything the next step depends on."""
        ...

    def load(self, state: StepState) -> None:
        """Go on from `state`. Raises `SpecError` when it is of another model or strategy."""
        ...

    def pids(self) -> dict[str, int]:
        """Process ids of the client and the workers, by role; none where there are no other processes."""
        ...

    def close(self) -> None:
        """End every process. A second call does no harm."""


@final
class Training:
    """The step of one strategy at work; a `Runner` without processes of its own."""

    def __init__(self, session: Session, strategy: Strategy) -> None:
        self._devices = [session.placement.name(each) for each in strategy.replicas]
        self._step = session.realize(strategy)
        self._feed: Any = None
        self._offers: list[Offer] = []
        self._read: tuple[Any, Sequence[int]] = ((), ())

    def on(self, batches: Sequence[Sequence[Any]], counted: Sequence[int]) -> float:
        return self._step.on(batches, weights(counted))

    def own(self) -> float:
        return self._step()

    def open_feed(self, read: Reader, specs: Sequence[Spec]) -> None:
        """Begin a pass over data of which all shards are read in this process."""
        self._end_offers()
        shards = len(self._devices)
        self._offers = [Offer(read, shard, shards) for shard in range(shards)]
        self.feed_from([offer.token for offer in self._offers], specs)

    def feed_from(self, tokens: Sequence[str], specs: Sequence[Spec]) -> None:
        """Take replica r's batches from what its process offers under `tokens[r]`."""
        from autosync.engine.training.feed import Feed

        self._feed = Feed(self._devices, tokens, specs)

    def read(self) -> int:
        self._read = self._feed.next()
        return sum(self._read[1])

    def on_read(self) -> float:
        return self.on(*self._read)

    def take_metrics(self) -> tuple[Array, ...]:
        from autosync.engine.capture.metrics import take_metrics

        self._step.settle()
        return take_metrics(self._step.placed)

    def state(self) -> StepState:
        return self._step.state()

    def load(self, state: StepState) -> None:
        self._step.load(state)

    def pids(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self._step.close()
        self._end_offers()

    def _end_offers(self) -> None:
        for offer in self._offers:
            offer.close()


def weights(counted: Sequence[int]) -> tuple[float, ...] | None:
    """What every replica's mean over its `counted` examples weighs in the mean over replicas, 1 on average.

    With n_r of n examples on replica r of R that is n_r R / n, so that every example weighs the same. None when
    replicas have equally many.
    """
    if len(set(counted)) == 1:
        return None
    return tuple(count * len(counted) / sum(counted) for count in counted)
