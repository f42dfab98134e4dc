"""Steps that a controller decides one at a time: whether replicas synchronize or follow their own gradients, how much
top-k keeps, how many examples each replica takes, and with paced passes, for which replicas a step does not wait.

Each kind of decision has its own traced function over the same layout, so a decision adds no work inside a step.
Whether a gradient counts is a weight of each replica, which is an input of the traced function: with paced passes, late
replicas are known in advance.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, final

import numpy as np
import tensorflow as tf

from autosync.engine.core.batch_split import weights_of_counted
from autosync.engine.core.pacing import Pacing
from autosync.engine.core.step_metrics import StepMetrics
from autosync.engine.core.step_state import StepState
from autosync.engine.core.timetable import Ends, TakenPasses, Timetable
from autosync.engine.tensorflow.capture.optimizer import NO_RULE
from autosync.engine.tensorflow.step.own_batches import Deal, OwnBatches
from autosync.engine.tensorflow.step.pace import Duration
from autosync.engine.tensorflow.step.passes import PacedPasses, RealPasses
from autosync.engine.tensorflow.step.placed_model import Placed
from autosync.engine.tensorflow.step.placed_step import PlacedStep
from autosync.engine.tensorflow.step.replica import CompiledModel
from autosync.engine.tensorflow.step.step_function import nothing, step_function
from autosync.engine.tensorflow.step.step_numbers import step_numbers
from autosync.engine.tensorflow.sync.outer_optimizer import outer_optimizer
from autosync.errors import SpecError
from autosync.numeric import FloatArray
from autosync.spec import Decision, StepReport

SYNCHRONIZATION = Decision()
"""The decision whose exchange has the length of a synchronization that was decided after a step."""


@dataclass(frozen=True)
class _Inputs:
    """The inputs of a step, and everything that is known about the step in advance."""

    arguments: tuple[Any, ...]
    """The arguments of the traced function."""
    weights: list[float]
    """The weights of the replicas' losses and gradients."""
    examples: tuple[int | None, ...]
    """The number of examples of each replica; None for a replica with weight 0."""
    ends: Ends | None
    """The ends of paced passes; None without pacing."""


@final
class DecidedStep(PlacedStep):
    """A `DecidableStep` whose passes run in one function over all devices."""

    def __init__(self, model: CompiledModel, placed: Placed, pacing: Pacing | None = None) -> None:
        """With `pacing`, gradients are held until their release times.

        Raises `SpecError` for a rhythm together with a rule over the gradients of all replicas.
        """
        super().__init__(model, placed)
        discipline = self.strategy.discipline
        rhythm = discipline.rhythm
        if rhythm and self.rule.rule != NO_RULE:
            raise SpecError(
                "Loss scaling and clipping by the common norm need the gradients of all replicas in every step; train "
                "without them, or without a rhythm."
            )
        assert pacing or not discipline.waits, "late replicas are known in advance only with paced passes"
        self._pacing = pacing
        self._exchange = pacing.exchange if pacing else None
        self._now = 0.0
        self._timetable = self._new_timetable()
        self._averages = rhythm.averages if rhythm else "gradients"
        self._held = placed.replica_values() if rhythm else []
        self._outer_optimizers = (
            [outer_optimizer(rhythm, held, len(placed.replicas)) for held in self._held] if rhythm else []
        )
        placed.wait()
        self._own_batches = OwnBatches(discipline.loads, len(placed.replicas), self.batch_size)
        self._functions: dict[Decision, Any] = {}
        self._meet = step_function(self._synchronize)

    def clock(self) -> float:
        """The time in seconds since an arbitrary start; virtual if exchanges have a stated length."""
        return time.perf_counter() if self._exchange is None else self._now

    def take(
        self,
        number: int,
        decision: Decision,
        batches: Sequence[Sequence[tf.Tensor]] | None = None,
        weights: Sequence[float] | None = None,
    ) -> StepReport:
        """Take step `number`, counted from 0, on the replicas' own synthetic batches or on given ones.

        If the decision leaves open whether replicas synchronize, they have not done so yet, and `meet` completes the
        step. For `weights` see `TrainingStep.on`. A replica's gradient enters the replica's own values unweighted, as
        the mean over its own examples, or as zero if it has none. `number` determines the lengths of paced passes.
        """
        begin = self.clock()
        inputs = self._inputs(number, decision, batches, weights)
        numbers = self._function(decision)(*inputs.arguments).numpy()
        if self._exchange and inputs.ends:
            exchanged = self._exchange(decision) if decision.meets else 0.0
            self._now += float(np.max(inputs.ends.delays + inputs.ends.waited)) + exchanged
        if self._timetable:
            self._timetable.end()
        report = self._report(decision, inputs, numbers.tolist())
        return replace(report, seconds=self.clock() - begin)

    def _inputs(
        self,
        number: int,
        decision: Decision,
        batches: Sequence[Sequence[tf.Tensor]] | None,
        weights: Sequence[float] | None,
    ) -> _Inputs:
        """Build a step's inputs: batches, weights of gradients, lengths of passes, and the ratio of top-k."""
        deal = Deal.of(batches, weights, decision.loads, self._own_batches)
        weights, sizes = deal.weights, deal.sizes
        counting = weights or [1.0] * len(sizes)
        ends = None
        if self._pacing is not None and self._timetable is not None:
            seconds = self._pacing.seconds(self.seed, number, [size / self.batch_size for size in sizes])
            wanted, apart = [weight > 0 for weight in counting], decision.meets is False
            ends = self._timetable.begin(seconds, sizes, wanted, decision.first, apart)
            if decision.first is not None:
                weights = counting = weights_of_counted(counting, [arrival is not None for arrival in ends.arrivals])
        arguments = (
            None if deal.batches is None else [list(batch) for batch in deal.batches],
            None if weights is None else tf.constant(list(weights), tf.float32),
            None if ends is None else self._waits(ends),
            None if decision.ratio is None else tf.constant(decision.ratio),
            deal.own_sizes,
        )
        return _Inputs(arguments, list(counting), _of_counted(sizes, counting), ends)

    def _waits(self, ends: Ends) -> tuple[FloatArray, FloatArray]:
        """The seconds to wait for passes, and their delays; zeros if time is virtual."""
        return (ends.waited, ends.delays) if self._exchange is None else (ends.waited * 0, ends.delays * 0)

    def _report(self, decision: Decision, inputs: _Inputs, numbers: Sequence[float]) -> StepReport:
        report, rest = self._metrics(decision).read(
            decision,
            numbers,
            inputs.weights,
            norms_weigh=not self._is_apart(decision),
            examples=inputs.examples,
            met=bool(decision.meets),
        )
        if inputs.ends is None or self._timetable is None:
            return report
        late = np.reshape(rest, (len(self.placed.replicas), -1)) * (self._exchange is None)
        self.taken.append(TakenPasses(inputs.ends.took, late))
        return replace(
            report,
            arrivals=inputs.ends.arrivals,
            late=tuple(late[:, -1].tolist()),
            buffered=self._timetable.buffered,
        )

    def _metrics(self, decision: Decision) -> StepMetrics:
        ratios = len(self.placed.levels.ratios) if decision.watches else 0
        norms = decision.norms or decision.meets is None
        return StepMetrics(len(self.placed.replicas), norms, decision.norms and not self._is_apart(decision), ratios)

    def _is_apart(self, decision: Decision) -> bool:
        """Whether each replica's gradient updates only the replica's own values."""
        return not decision.meets or self._averages == "parameters"

    def warm_up(self, decision: Decision) -> None:
        """Take steps of every kind that can be decided, as a warm-up; `decision` is an example."""
        rhythm = self.strategy.discipline.rhythm
        either = rhythm is not None and rhythm.steps is not None and rhythm.steps > 1
        levels = self.placed.levels
        ways, ratios = range(len(levels.transports)) or (None,), levels.kinds or (decision.ratio,)
        for meets, transport, ratio in product((False, True) if either else (decision.meets,), ways, ratios):
            self.take(0, replace(decision, meets=meets, transport=transport, ratio=ratio))
            if meets is None:
                self.meet()

    def meet(self) -> None:
        """Average the replicas' parameters."""
        self._meet().numpy()
        if self._exchange:
            self._now += self._exchange(SYNCHRONIZATION)

    def load(self, state: StepState) -> None:
        """Continue from `state`. If the state has no separate values of replicas, all replicas get its values.

        The timetable starts without running passes and without buffered examples. Raises `SpecError`.
        """
        variables = self._replica_variables()
        if state.own and [array.shape for array in state.own] != [tuple(variable.shape) for variable in variables]:
            raise SpecError(
                "A saved state with separate values of replicas fits only its own strategy; load it with that strategy."
            )
        super().load(state)
        if state.own:
            for variable, array in zip(variables, state.own, strict=True):
                variable.assign(array)
        else:
            for optimizer in self._outer_optimizers:
                optimizer.begin()
        self._timetable = self._new_timetable()
        self.placed.wait()

    def _new_timetable(self) -> Timetable | None:
        waits = self.strategy.discipline.waits
        stops = waits is not None and waits.late == "stop"
        return Timetable(self._pacing.rates, stops, self.clock) if self._pacing else None

    def _replica_variables(self) -> list[Any]:
        held = [variable for holder in self._held for variable in (holder.value, *holder.slots)]
        return [*held, *(variable for optimizer in self._outer_optimizers for variable in optimizer.variables)]

    def _function(self, decision: Decision) -> Any:
        """Return the traced function of steps with decisions like `decision`."""
        whole = decision.ratio if self.placed.levels.is_whole(decision.ratio) else None
        kind = replace(decision, first=None, ratio=whole, loads=None)
        if kind.norms and self.rule.rule.loss_scale is not None:
            raise SpecError(
                "This discipline watches the norms of gradients, and loss scaling changes them; train without it."
            )
        if kind not in self._functions:
            self._functions[kind] = step_function(
                lambda *arguments: self._trace(kind, *arguments), reduce_retracing=True
            )
        return self._functions[kind]

    def _trace(self, kind: Decision, batches: Any, weights: Any, waited: Any, ratio: tf.Tensor, sizes: Any) -> Any:
        """Trace a step of a `kind` of decisions. The result, float64, has the numbers of its metrics and, with pacing,
        the lateness of all releases.

        `batches` is None for the replicas' own batches. If `sizes` is given, each replica takes only its first
        `sizes` examples. `waited` has the seconds to wait for passes and their delays.
        """
        placed = self.placed
        placed.levels.begin(ratio, kind.watches, kind.transport, whole=kind.ratio is not None)
        if batches is None:
            batches = [self._own_batches.of(replica, sizes) for replica in placed.replicas]
        apart, metrics = self._is_apart(kind), self._metrics(kind)
        counted = weights if not apart or weights is None else tf.cast(weights > 0, weights.dtype)
        real = RealPasses(batches, counted)
        gate = (
            PacedPasses(real, self._pacing, lambda replica: Duration(waited[0], waited[1], replica))
            if self._pacing
            else None
        )
        results, updates = self._through(gate or real, apart=apart, with_all_updates=metrics.mean_norm)
        losses = [result.loss for result in results]
        if apart and weights is not None:
            shares = tf.unstack(weights, len(results))
            losses = [loss * tf.cast(share, loss.dtype) for loss, share in zip(losses, shares, strict=True)]
        if kind.meets and apart:
            self._average()
        late = [seconds for report in gate.reports for seconds in tf.unstack(report[2:])] if gate else []
        return step_numbers(metrics, placed, losses, results, updates, late)

    def _synchronize(self) -> Any:
        self._average()
        return nothing(self.placed.devices[0])

    def _average(self) -> None:
        for (held, mean), optimizer in zip(self.placed.value_means(), self._outer_optimizers, strict=True):
            with tf.device(held.device):
                held.value.assign(optimizer.step(mean))


def _of_counted(values: Sequence[Any], weights: Sequence[float]) -> tuple[Any, ...]:
    """Return `values`, by replica, with None for replicas of weight 0."""
    return tuple(value if weight > 0 else None for value, weight in zip(values, weights, strict=True))
