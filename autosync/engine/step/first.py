"""Steps that wait for the first so many replicas, whoever they turn out to be; or for all, to see when they come.

Every replica has a function of its own, called by a thread of its own: it pulls the values as they are, computes, and
leaves its gradients in a `PendingPass`. Once enough have come, one more function applies their mean. The others' count
nothing: they finish their pass, and begin the next one with the step that is under way by then.

Who is counted is decided for whole gradients at once, so that all shards take the same replicas'. So nothing is sent
before the last of them is there: what a step sends no longer overlaps the passes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, final

import numpy.typing as npt

from autosync.engine.capture.optimizer import NO_RULE
from autosync.engine.step.arriving import Arriving
from autosync.engine.step.correction import RuleState
from autosync.engine.step.dealing import Deal, OwnBatches, counted_alone
from autosync.engine.step.paced import TakenPasses
from autosync.engine.step.pending import PendingPass
from autosync.engine.step.placed import Placed
from autosync.engine.step.replica import CompiledModel
from autosync.engine.step.step_function import step_function
from autosync.engine.step.step_state import StepState, load_state, state_of, values_of
from autosync.engine.step.telling import Telling
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport

Pause = Callable[[int, int], None]


@final
class FirstStep:
    """A strategy with a cut-off at work on passes that take as long as they take."""

    def __init__(self, model: CompiledModel, placed: Placed, pause: Pause | None = None) -> None:
        """`pause(replica, step)` is called in the replica's thread before it begins a pass, for tests and emulation.

        Raises `SpecError` for late replicas that are to stop, and for loss scaling.
        """
        discipline = placed.strategy.discipline
        if discipline.waits and discipline.waits.late == "stop":
            raise SpecError(
                'A pass cannot be stopped on its way but on paced nodes; let late replicas finish theirs ("late": '
                '"finish").'
            )
        rule = model.captured.gradient_rule
        if rule.loss_scale is not None:
            raise SpecError("Loss scaling moves with every step of all replicas; train without it, or wait for all.")
        self.strategy = placed.strategy
        self.placed = placed
        self.seed = 0
        self.taken: tuple[TakenPasses, ...] = ()
        self.rule = RuleState(rule, placed.replicas)
        self._pause = pause
        self._given: tuple[Sequence[Sequence[Any]] | None, Any] = (None, None)
        self._own = OwnBatches(discipline.loads, len(placed.replicas), model.captured.spec.batch_size)
        self._pending = [PendingPass(replica) for replica in placed.replicas]
        self._computes = [self._compute(number) for number in range(len(placed.replicas))]
        self._apply = step_function(self._applied, reduce_retracing=True)
        placed.wait()
        self._gate = Arriving()
        replicas = range(len(placed.replicas))
        self._threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in replicas]
        for thread in self._threads:
            thread.start()

    def clock(self) -> float:
        return time.perf_counter()

    def take(
        self,
        number: int,
        decision: Decision,
        batches: Sequence[Sequence[Any]] | None = None,
        weights: Sequence[float] | None = None,
    ) -> StepReport:
        """Take a step on the replicas' own synthetic batches or on given ones. `weights` are as in `Step.on`.

        A replica without examples is not waited for. One that is late draws no batch of the steps that it misses.
        """
        import tensorflow as tf

        deal = Deal.of(batches, weights, decision.loads, self._own)
        weights = deal.weights or [1.0] * len(self._threads)
        self._given = deal.batches, deal.own
        wanted = {replica for replica, weight in enumerate(weights) if weight > 0}
        enough = len(wanted) if decision.first is None else min(decision.first, len(wanted))
        arrived = self._gate.open(number, wanted, enough)
        counted = counted_alone(weights, [replica in arrived for replica in range(len(weights))])
        ratio = None if decision.ratio is None else tf.constant(decision.ratio)
        telling = self._telling(decision.watches, decision.norms)
        kind = decision.watches, decision.norms, decision.transport, self.placed.ladder.is_whole(decision.ratio)
        numbers = self._apply(tf.constant(counted, tf.float32), ratio, *kind).numpy()
        report, _ = telling.read(
            decision,
            numbers.tolist(),
            counted,
            norms_weigh=True,
            examples=tuple(size if replica in arrived else None for replica, size in enumerate(deal.sizes)),
            arrivals=tuple(arrived.get(replica) for replica in range(len(weights))),
        )
        return report

    def warm_up(self, decision: Decision) -> None:
        """Take a step like `decision`, but wait for all replicas; and one by each transport, and that keeps all."""
        ladder = self.placed.ladder
        ways, ratios = range(len(ladder.transports)) or (None,), ladder.kinds or (decision.ratio,)
        for transport, ratio in product(ways, ratios):
            self.take(0, replace(decision, first=len(self._threads), transport=transport, ratio=ratio))

    def meet(self) -> None:
        """Do nothing: all replicas have met."""

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Every variable's value as replica `replica` sees it."""
        return values_of(self.placed, replica)

    def state(self) -> StepState:
        """As of `Step.state`. What late replicas still compute is not part of it."""
        self.settle()
        return state_of(self.placed, self.rule)

    def load(self, state: StepState) -> None:
        self.settle()
        load_state(self.placed, self.rule, state)

    def settle(self) -> None:
        """Wait until late replicas have finished their passes."""
        self._gate.settle()

    def close(self) -> None:
        """End the replicas' threads, once they have finished their passes."""
        self._gate.close()
        for thread in self._threads:
            thread.join()

    def _work(self, replica: int) -> None:
        """The life of a replica's thread."""
        try:
            while (step := self._gate.begin(replica)) is not None:
                if self._pause:
                    self._pause(replica, step)
                batches, sizes = self._given
                self._computes[replica](None if batches is None else list(batches[replica]), sizes).numpy()
                self._gate.arrive(replica, step)
        except BaseException as error:
            self._gate.fail(error)  # raised again by whoever waits for a step

    def _compute(self, number: int) -> Any:
        """The function of a replica: forward and backward pass, all that comes of it to its `PendingPass`."""
        import tensorflow as tf

        placed, replica, pending = self.placed, self.placed.replicas[number], self._pending[number]

        def compute(batch: Any, sizes: Any) -> Any:
            inputs = self._own.of(replica, sizes) if batch is None else batch
            found = replica.look_up(inputs)
            pending.put(found, replica.compute(placed.pull([found], [number])[0], inputs, found))
            with tf.device(replica.device):
                return tf.constant(True)  # something to wait for; without a result, a call on workers only queues

        return step_function(compute, reduce_retracing=True)

    def _applied(self, weights: Any, ratio: Any, watches: bool, norms: bool, transport: int | None, whole: bool) -> Any:
        """Update all values by the mean of the pending gradients, which count as `weights` say; what is told of it."""
        import tensorflow as tf

        placed = self.placed
        placed.ladder.begin(ratio, watches, transport, whole)
        placed.begin()
        results, lookups = [], []
        for replica, pending, weight in zip(
            placed.replicas, self._pending, tf.unstack(weights, len(placed.replicas)), strict=True
        ):
            found, result = pending.taken()
            replica.keep(result.kept, weight)
            results.append(result.weighing(weight, replica.device))
            lookups.append(found)
        updates = placed.push(results, lookups, at_once=self.rule.rule == NO_RULE and not norms)
        placed.apply(updates, self.rule.correction(updates))
        return self._telling(watches, norms).told(placed, [each.loss for each in results], results, updates)

    def _telling(self, watches: bool, norms: bool) -> Telling:
        return Telling(len(self.placed.replicas), norms, norms, len(self.placed.ladder.ratios) if watches else 0)
