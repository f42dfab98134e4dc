"""Trains with a strategy in the process whose TensorFlow knows the devices: the client, or the caller's own process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.core.batch_split import weights_by_examples
from autosync.engine.core.prefetch import Reader, Spec
from autosync.engine.core.step_state import StepState
from autosync.engine.core.steps_a_call import calls_of_several
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.training.feed import Feed, ShardOffer
from autosync.numeric import AnyArray
from autosync.spec import Strategy


@final
class Training:
    """A `Runner` that takes the steps of one strategy and has no worker processes of its own."""

    def __init__(self, session: TensorFlowSession, strategy: Strategy) -> None:
        self._devices = [session.placement.name(device) for device in strategy.replicas]
        self._step = session.realize(strategy)
        self._feed: Feed | None = None
        self._offers: list[ShardOffer] = []
        self._read: tuple[Any, Sequence[int]] = ((), ())

    def on(self, batches: Sequence[Sequence[Any]], counted: Sequence[int]) -> float:
        return self._step.on(batches, weights_by_examples(counted))

    def own(self) -> float:
        return self._step()

    def several(self, count: int) -> list[float]:
        step = calls_of_several(self._step)
        return [self._step() for _ in range(count)] if step is None else step.several(count)

    def open_feed(self, read: Reader, specs: Sequence[Spec]) -> None:
        """Begin an epoch over data whose shards are all read in this process."""
        self._end_offers()
        shards = len(self._devices)
        self._offers = [ShardOffer(read, shard, shards) for shard in range(shards)]
        self.feed_from([offer.token for offer in self._offers], specs)

    def feed_from(self, tokens: Sequence[str], specs: Sequence[Spec]) -> None:
        """Take replica r's batches from the function that its process offers under `tokens[r]`."""
        self._feed = Feed(self._devices, tokens, specs)

    def read(self) -> int:
        assert self._feed is not None, "open_feed comes first"
        self._read = self._feed.next()
        return sum(self._read[1])

    def on_read(self) -> float:
        return self.on(*self._read)

    def take_metrics(self) -> tuple[AnyArray, ...]:
        return self._step.take_metrics()

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
