"""Stale-synchronous steps: fast replicas run up to `staleness` steps ahead of the slowest (Ho et al. 2013).

Every replica has a function of its own, called by a thread of its own: it pulls the values as they are, computes, and
puts its gradients beside the servers. Once all replicas' gradients of a step are there, one more function applies their
mean, summed as a synchronous step sums it. So an update is always the mean over all replicas, and with staleness 0 the
numbers are those of a synchronous step, to the bit. The gradients of step c wait in place c modulo (staleness + 1).
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy.typing as npt

from autosync.engine.step.correction import RuleState
from autosync.engine.step.placed import Placed
from autosync.engine.step.replica import CompiledModel
from autosync.engine.step.splitting import key_of
from autosync.engine.step.step_function import step_function
from autosync.engine.step.step_state import StepState, load_state, state_of, values_of
from autosync.engine.step.waiting import Pending, StaleClock
from autosync.engine.sync.exchange import ServerPlace
from autosync.engine.sync.update import Update
from autosync.engine.sync.whole import WholeShard
from autosync.engine.sync.wire import PLAIN
from autosync.errors import SpecError

Pause = Callable[[int, int], None]


@final
class StaleStep:
    """A strategy with staleness at work. Each call asks for one more step of every replica.

    A call returns when at most `staleness` of the steps asked for are still under way, with the mean loss of the last
    one applied (at least the first). Reading the state waits until none is under way. `lags` counts how many steps
    ahead of the slowest replicas began theirs.
    """

    def __init__(self, model: CompiledModel, placed: Placed, pause: Pause | None = None) -> None:
        """`pause(replica, step)` is called in the replica's thread before it begins a step, for tests and emulation."""
        if model.captured.gradient_rule.loss_scale is not None:
            raise SpecError("Loss scaling moves with every step of all replicas; train without it, or staleness 0.")
        self.strategy = placed.strategy
        self.placed = placed
        self.rule = RuleState(model.captured.gradient_rule, placed.replicas)
        replicas = range(len(placed.replicas))
        self._clock = StaleClock(len(replicas), self.strategy.staleness)
        self._places = self.strategy.staleness + 1
        self._pause = pause
        self._losses: dict[int, list[float]] = {}
        self._last_loss = float("nan")
        self._given: dict[int, Any] = {}
        pending = [[Pending(placed, replica) for replica in replicas] for _ in range(self._places)]
        self._computes = [[self._compute(replica, place[replica]) for replica in replicas] for place in pending]
        self._applies = [self._apply(place) for place in pending]
        placed.wait()
        self._threads = [threading.Thread(target=self._work, args=(replica,), daemon=True) for replica in replicas]
        for thread in self._threads:
            thread.start()

    def __call__(self) -> float:
        return self._ask(None)

    def on(self, batches: Sequence[Sequence[Any]], weights: Sequence[float] | None = None) -> float:
        """Ask for a step, as a call does, on given flat batches, one a replica. See `Step.on`."""
        shares = [1.0] * len(batches) if weights is None else list(weights)
        import tensorflow as tf

        return self._ask([(list(batch), tf.constant(share)) for batch, share in zip(batches, shares, strict=True)])

    @property
    def lags(self) -> dict[int, int]:
        return dict(self._clock.lags)

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        self.settle()
        return values_of(self.placed, replica)

    def state(self) -> StepState:
        self.settle()
        return state_of(self.placed, self.rule)

    def load(self, state: StepState) -> None:
        self.settle()
        load_state(self.placed, self.rule, state)

    def settle(self) -> None:
        """Wait until every step asked for has been applied."""
        self._clock.wait(behind=0)

    def close(self) -> None:
        """End the replicas' threads; steps under way are finished first, unless one has failed."""
        self._clock.close()
        for thread in self._threads:
            thread.join()

    def _ask(self, batches: Any) -> float:
        step = self._clock.asked
        self._given[step] = batches
        self._clock.ask()
        self._clock.wait(behind=min(step, self._clock.staleness))
        return self._last_loss

    def _work(self, replica: int) -> None:
        """The life of a replica's thread."""
        try:
            while (step := self._clock.begin(replica)) is not None:
                if self._pause:
                    self._pause(replica, step)
                compute, given = self._computes[step % self._places][replica], self._given[step]
                loss = float(compute(*given[replica]) if given else compute(None, None))
                self._losses.setdefault(step, []).append(loss)
                self._clock.finish(replica, self._update)
        except BaseException as error:
            self._clock.fail(error)  # raised again by whoever waits for a step

    def _update(self, step: int) -> None:
        self._applies[step % self._places]().numpy()
        losses = self._losses.pop(step)
        self._last_loss = sum(losses) / len(losses)
        del self._given[step]

    def _compute(self, number: int, pending: Pending) -> Any:
        """The function of a replica: forward and backward pass, gradients to `pending`; the loss."""
        placed, replica = self.placed, self.placed.replicas[number]

        def compute(batch: Any, weight: Any) -> Any:
            inputs = replica.next_batch() if batch is None else batch
            found = replica.look_up(inputs)
            result = replica.run(placed.pull([found], [number])[0], inputs, found, weight)
            pending.put(placed, found, result)
            return result.loss

        return step_function(compute, reduce_retracing=True)

    def _apply(self, pending: Sequence[Pending]) -> Any:
        """The function that updates all values with the mean of the gradients in `pending`, one a replica."""
        import tensorflow as tf

        placed = self.placed

        def apply() -> Any:
            placed.begin()
            updates = []
            for server in placed.servers:
                key = key_of(server.shards[0])
                members = tuple(each.members[key] for each in pending)
                exchange = WholeShard(ServerPlace(server.shards, server.member, members), PLAIN)
                updates.append(Update(server, (exchange.mean([each.gradient(key) for each in pending]),)))
            for key, sparse in placed.sparse.items():
                ids, rows = zip(*(each.rows(key) for each in pending), strict=True)
                updates += sparse.push(ids, rows)
            placed.apply(updates, self.rule.correction(updates))
            with tf.device(placed.devices[0]):
                return tf.constant(True)  # something to wait for; without a result, a call on workers only queues

        return step_function(apply)
