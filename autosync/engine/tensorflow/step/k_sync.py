"""Steps that apply the gradients of the first K replicas to finish (K-sync SGD). With K = all, they only record arrival
times.

Once K replicas have arrived, the mean of their gradients is applied. The gradients of late replicas are dropped: these
replicas finish their pass, and begin the next pass in the step that is then open.

The choice of replicas holds for whole gradients, so that all shards use the same replicas. Therefore a replica sends
nothing before its last gradient is ready, and the messages of a step do not overlap the passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, final

import tensorflow as tf

from autosync.engine.core.barrier import FirstArrivals
from autosync.engine.core.batch_split import weights_of_counted
from autosync.engine.core.contract import Pause
from autosync.engine.core.step_metrics import StepMetrics
from autosync.engine.tensorflow.capture.optimizer import NO_RULE
from autosync.engine.tensorflow.step.asynchronous import AsynchronousStep
from autosync.engine.tensorflow.step.own_batches import Deal, OwnBatches
from autosync.engine.tensorflow.step.pass_buffer import PassBuffer
from autosync.engine.tensorflow.step.placed_model import Placed
from autosync.engine.tensorflow.step.replica import CompiledModel
from autosync.engine.tensorflow.step.step_function import nothing, step_function
from autosync.engine.tensorflow.step.step_numbers import step_numbers
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport


@final
class KSyncStep(AsynchronousStep):
    """A `DecidableStep` with a cut-off, on passes that are not paced."""

    def __init__(self, model: CompiledModel, placed: Placed, pause: Pause | None = None) -> None:
        """Raises `SpecError` for a discipline that stops late replicas, and for loss scaling."""
        discipline = placed.strategy.discipline
        if discipline.waits and discipline.waits.late == "stop":
            raise SpecError(
                'Only passes on paced nodes can be stopped; let late replicas finish their passes ("late": "finish").'
            )
        self._arrivals = FirstArrivals()
        super().__init__(model, placed, self._arrivals, pause)
        self._given: tuple[Sequence[Sequence[Any]] | None, Any] = (None, None)
        self._own_batches = OwnBatches(discipline.loads, len(placed.replicas), self.batch_size)
        self._buffers = [PassBuffer(replica) for replica in placed.replicas]
        self._computes = [self._compute(number) for number in range(len(placed.replicas))]
        self._apply = step_function(self._apply_buffers, reduce_retracing=True)
        self._start()

    def take(
        self,
        number: int,
        decision: Decision,
        batches: Sequence[Sequence[tf.Tensor]] | None = None,
        weights: Sequence[float] | None = None,
    ) -> StepReport:
        """Take a step on the replicas' own synthetic batches or on given ones, like `DecidableStep.take`.

        The step does not wait for replicas without examples. A late replica draws no batches for the steps it misses.
        """
        deal = Deal.of(batches, weights, decision.loads, self._own_batches)
        weights = deal.weights or [1.0] * len(self._threads)
        self._given = deal.batches, deal.own_sizes
        wanted = {replica for replica, weight in enumerate(weights) if weight > 0}
        enough = len(wanted) if decision.first is None else min(decision.first, len(wanted))
        arrived = self._arrivals.open(number, wanted, enough)
        counted = weights_of_counted(weights, [replica in arrived for replica in range(len(weights))])
        ratio = None if decision.ratio is None else tf.constant(decision.ratio)
        kind = decision.watches, decision.norms, decision.transport, self.placed.levels.is_whole(decision.ratio)
        numbers = self._apply(tf.constant(counted, tf.float32), ratio, *kind).numpy()
        report, _ = self._metrics(decision.watches, decision.norms).read(
            decision,
            numbers.tolist(),
            counted,
            norms_weigh=True,
            examples=tuple(size if replica in arrived else None for replica, size in enumerate(deal.sizes)),
            arrivals=tuple(arrived.get(replica) for replica in range(len(weights))),
        )
        return report

    def warm_up(self, decision: Decision) -> None:
        """Take steps like `decision` that wait for all replicas: one for each transport and kind of ratio."""
        levels = self.placed.levels
        ways, ratios = range(len(levels.transports)) or (None,), levels.kinds or (decision.ratio,)
        for transport, ratio in product(ways, ratios):
            self.take(0, replace(decision, first=len(self._threads), transport=transport, ratio=ratio))

    def meet(self) -> None:
        """Do nothing, because replicas synchronize in every step."""

    def settle(self) -> None:
        """Wait until late replicas have finished their passes."""
        self._arrivals.settle()

    def _pass(self, replica: int, step: int) -> None:
        batches, sizes = self._given
        self._computes[replica](None if batches is None else list(batches[replica]), sizes).numpy()
        self._arrivals.arrive(replica, step)

    def _compute(self, number: int) -> Any:
        """Build a replica's function: forward and backward pass, with all results to the replica's `PassBuffer`."""
        placed, replica, buffer = self.placed, self.placed.replicas[number], self._buffers[number]

        def compute(batch: Any, sizes: Any) -> Any:
            inputs = self._own_batches.of(replica, sizes) if batch is None else batch
            lookups = replica.look_up(inputs)
            buffer.put(lookups, replica.compute(placed.pull([lookups], [number])[0], inputs, lookups))
            return nothing(replica.device)

        return step_function(compute, reduce_retracing=True)

    def _apply_buffers(
        self, weights: Any, ratio: tf.Tensor, watches: bool, norms: bool, transport: int | None, whole: bool
    ) -> Any:
        """Update all values by the mean of the buffered gradients, weighted by `weights`; return the step's numbers."""
        placed = self.placed
        placed.levels.begin(ratio, watches, transport, whole)
        placed.begin()
        results, lookups = [], []
        for replica, buffer, weight in zip(
            placed.replicas, self._buffers, tf.unstack(weights, len(placed.replicas)), strict=True
        ):
            touched, result = buffer.take()
            replica.keep(result.kept, weight)
            results.append(result.weigh(weight, replica.device))
            lookups.append(touched)
        updates = placed.push(results, lookups, at_once=self.rule.rule == NO_RULE and not norms)
        placed.apply(updates, self.rule.correction(updates))
        losses = [result.loss for result in results]
        return step_numbers(self._metrics(watches, norms), placed, losses, results, updates)

    def _metrics(self, watches: bool, norms: bool) -> StepMetrics:
        return StepMetrics(len(self.placed.replicas), norms, norms, len(self.placed.levels.ratios) if watches else 0)
