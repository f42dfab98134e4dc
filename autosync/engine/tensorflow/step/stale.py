"""Stale-synchronous steps: fast replicas run up to `staleness` steps ahead of the slowest (Ho et al. 2013).

Once the gradients of all replicas for a step are in the buffers at the servers, their mean is applied, summed in the
same order as in a synchronous step. An update is therefore always the mean over all replicas, and with staleness 0 the
numbers equal those of a synchronous step to the bit. The gradients of step c wait in buffer c modulo (staleness + 1).
"""

from collections.abc import Sequence
from typing import Any, final

import numpy.typing as npt
import tensorflow as tf

from autosync.engine.core.barrier import StaleClock
from autosync.engine.core.contract import Pause
from autosync.engine.tensorflow.step.asynchronous import AsynchronousStep
from autosync.engine.tensorflow.step.gradient_buffer import GradientBuffer
from autosync.engine.tensorflow.step.placed_model import Placed
from autosync.engine.tensorflow.step.replica import CompiledModel
from autosync.engine.tensorflow.step.splitting import key_of
from autosync.engine.tensorflow.step.step_function import nothing, step_function
from autosync.engine.tensorflow.sync.dense import WholeShard
from autosync.engine.tensorflow.sync.exchange import ServerPlace
from autosync.engine.tensorflow.sync.update import Update
from autosync.engine.tensorflow.sync.wire import PLAIN
from autosync.spec import StepReport


@final
class StaleStep(AsynchronousStep):
    """A `TrainingStep` with staleness. Each call asks every replica for one more step.

    A call returns the mean loss of the last applied step once at most `staleness` of the steps asked for are not
    applied, and at least the first step is. Reading the state waits until all steps are applied. `lags` counts begun
    passes by the number of steps that they were ahead of the slowest replica.
    """

    report: StepReport | None = None
    controller_seconds = 0.0

    def __init__(self, model: CompiledModel, placed: Placed, pause: Pause | None = None) -> None:
        replicas = range(len(placed.replicas))
        self._clock = StaleClock(len(replicas), placed.strategy.staleness)
        super().__init__(model, placed, self._clock, pause)
        self._buffers = self.strategy.staleness + 1
        self._losses: dict[int, list[float]] = {}
        self._last_loss = float("nan")
        self._given: dict[int, Any] = {}
        buffers = [[GradientBuffer(placed, replica) for replica in replicas] for _ in range(self._buffers)]
        self._computes = [[self._compute(replica, buffer[replica]) for replica in replicas] for buffer in buffers]
        self._applies = [self._apply(buffer) for buffer in buffers]
        self._start()

    def __call__(self) -> float:
        return self._ask(None)

    def on(self, batches: Sequence[Sequence[tf.Tensor]], weights: Sequence[float] | None = None) -> float:
        """Ask for a step on given flat batches, like `TrainingStep.on`."""
        shares = [1.0] * len(batches) if weights is None else list(weights)
        return self._ask([(list(batch), tf.constant(share)) for batch, share in zip(batches, shares, strict=True)])

    def warm_up(self) -> None:
        self()

    @property
    def lags(self) -> dict[int, int]:
        return dict(self._clock.lags)

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        self.settle()
        return super().values(replica)

    def settle(self) -> None:
        """Wait until every step asked for has been applied."""
        self._clock.wait(behind=0)

    def _ask(self, batches: Any) -> float:
        step = self._clock.asked
        self._given[step] = batches
        self._clock.ask()
        self._clock.wait(behind=min(step, self._clock.staleness))
        return self._last_loss

    def _pass(self, replica: int, step: int) -> None:
        compute, batches = self._computes[step % self._buffers][replica], self._given[step]
        loss = float(compute(*batches[replica]) if batches else compute(None, None))
        self._losses.setdefault(step, []).append(loss)
        self._clock.finish(replica, self._update)

    def _update(self, step: int) -> None:
        self._applies[step % self._buffers]().numpy()
        losses = self._losses.pop(step)
        self._last_loss = sum(losses) / len(losses)
        del self._given[step]

    def _compute(self, number: int, buffer: GradientBuffer) -> Any:
        """Build a replica's function: forward and backward pass, gradients to `buffer`; it returns the loss."""
        placed, replica = self.placed, self.placed.replicas[number]

        def compute(batch: Any, weight: tf.Tensor) -> Any:
            inputs = replica.next_batch() if batch is None else batch
            lookups = replica.look_up(inputs)
            result = replica.run(placed.pull([lookups], [number])[0], inputs, lookups, weight)
            buffer.put(placed, lookups, result)
            return result.loss

        return step_function(compute, reduce_retracing=True)

    def _apply(self, buffers: Sequence[GradientBuffer]) -> Any:
        """Build the function that updates all values by the mean of the gradients in `buffers`, one a replica."""
        placed = self.placed

        def apply() -> Any:
            placed.begin()
            updates = []
            for server in placed.servers:
                key = key_of(server.shards[0])
                members = tuple(buffer.members[key] for buffer in buffers)
                exchange = WholeShard(ServerPlace(server.shards, server.member, members), PLAIN)
                updates.append(Update(server, (exchange.mean([buffer.gradient(key) for buffer in buffers]),)))
            for key, sparse in placed.sparse.items():
                ids, rows = zip(*(buffer.rows(key) for buffer in buffers), strict=True)
                updates += sparse.push(ids, rows)
            placed.apply(updates, self.rule.correction(updates))
            return nothing(placed.devices[0])

        return step_function(apply)
