"""Steps that do what is decided before each: whether replicas meet or each follows its own gradient, what top-k keeps,
how many examples each replica takes; and where passes are paced, without whom a step goes on.

All are functions over one layout, chosen by whoever takes a step, so nothing in a step waits for what is decided. Whose
gradients count is a weight for each, given to a step that has been traced before: where passes are paced it is known
beforehand who will be late.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from autosync.engine.capture.optimizer import NO_RULE
from autosync.engine.step.dealing import Deal, OwnBatches, counted_alone
from autosync.engine.step.pace import Duration, Pacing
from autosync.engine.step.paced import Gate, TakenPasses
from autosync.engine.step.passes import RealPasses
from autosync.engine.step.step_function import step_function
from autosync.engine.step.step_state import StepState, state_of
from autosync.engine.step.telling import Telling
from autosync.engine.step.timetable import Ends, Timetable
from autosync.engine.sync.meeting import meeting
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport

if TYPE_CHECKING:
    from autosync.engine.step.placed import Placed
    from autosync.engine.step.realize import Step


Array = npt.NDArray[np.float64]

MEETING = Decision()
"""What a meeting exchanges that was decided after a step."""


@dataclass(frozen=True)
class _Dealt:
    """What a traced step is `given`, and what is known of it beforehand."""

    given: tuple[Any, ...]
    weights: list[float]
    examples: tuple[int | None, ...]
    ends: Ends | None


@final
class DecidedStep:
    """A strategy with a discipline at work. Whoever takes a step decides what it does."""

    def __init__(self, step: Step, pacing: Pacing | None = None) -> None:
        """Take steps over what `step` has placed; with `pacing` their passes are held until their time.

        Raises `SpecError` for a rhythm with a rule over all replicas' gradients.
        """
        discipline = step.strategy.discipline
        rhythm = discipline.rhythm
        if rhythm and step.rule.rule != NO_RULE:
            raise SpecError(
                "Loss scaling and clipping by the common norm look at the gradients of all replicas together; train "
                "without them, or without a rhythm."
            )
        assert pacing or not discipline.waits, "without paced passes it is found out who is late"
        self.strategy = step.strategy
        self.seed = 0
        self.taken: list[TakenPasses] = []
        self._step = step
        self._pacing = pacing
        self._exchange = pacing.exchange if pacing else None
        self._now = 0.0
        self._timetable = self._new_timetable()
        self._averages = rhythm.averages if rhythm else "gradients"
        self._held = step.placed.replicated() if rhythm else []
        self._meetings = [meeting(rhythm, held, len(step.placed.replicas)) for held in self._held] if rhythm else []
        step.placed.wait()
        self._own = OwnBatches(discipline.loads, len(step.placed.replicas), step.batch_size)
        self._functions: dict[Decision, Any] = {}
        self._meet = step_function(self._met)

    @property
    def placed(self) -> Placed:
        return self._step.placed

    def clock(self) -> float:
        """The time in seconds, since whenever: virtual where exchanges have a stated length."""
        return time.perf_counter() if self._exchange is None else self._now

    def take(
        self,
        number: int,
        decision: Decision,
        batches: Sequence[Sequence[Any]] | None = None,
        weights: Sequence[float] | None = None,
    ) -> StepReport:
        """Run step `number`, counted from 0, on the replicas' own synthetic batches or on given ones.

        Where it is still to be decided if they meet, they have not, and `meet` is what is left to do. `weights` are as
        in `Step.on`. Into a replica's own values its gradient goes unweighed, as the mean over its
        own examples; if it has none of them, as zero. The number says how long paced passes take.
        """
        begin = self.clock()
        taken = self._dealt(number, decision, batches, weights)
        numbers = self._function(decision)(*taken.given).numpy()
        if self._exchange and taken.ends:
            exchanged = self._exchange(decision) if decision.meets else 0.0
            self._now += float(np.max(taken.ends.delays + taken.ends.waited)) + exchanged
        if self._timetable:
            self._timetable.end()
        report = self._report(decision, taken, numbers.tolist())
        return replace(report, seconds=self.clock() - begin)

    def _dealt(
        self,
        number: int,
        decision: Decision,
        batches: Sequence[Sequence[Any]] | None,
        weights: Sequence[float] | None,
    ) -> _Dealt:
        """What a step is given: batches, what replicas' gradients count, how long passes take, and what top-k keeps."""
        import tensorflow as tf

        deal = Deal.of(batches, weights, decision.loads, self._own)
        weights, sizes = deal.weights, deal.sizes
        counting = weights or [1.0] * len(sizes)
        ends = None
        if self._pacing is not None and self._timetable is not None:
            seconds = self._pacing.seconds(self.seed, number, [each / self._step.batch_size for each in sizes])
            wanted, apart = [each > 0 for each in counting], decision.meets is False
            ends = self._timetable.begin(seconds, sizes, wanted, decision.first, apart)
            if decision.first is not None:
                weights = counting = counted_alone(counting, [each is not None for each in ends.arrivals])
        given = (
            None if deal.batches is None else [list(batch) for batch in deal.batches],
            None if weights is None else tf.constant(list(weights), tf.float32),
            None if ends is None else self._waits(ends),
            None if decision.ratio is None else tf.constant(decision.ratio),
            deal.own,
        )
        return _Dealt(given, list(counting), _of_counted(sizes, counting), ends)

    def _waits(self, ends: Ends) -> tuple[Array, Array]:
        """For how long passes are waited for, and after what delays: not at all where time is virtual."""
        return (ends.waited, ends.delays) if self._exchange is None else (ends.waited * 0, ends.delays * 0)

    def _report(self, decision: Decision, taken: _Dealt, numbers: Sequence[float]) -> StepReport:
        report, rest = self._telling(decision).read(
            decision,
            numbers,
            taken.weights,
            norms_weigh=not self._is_apart(decision),
            examples=taken.examples,
            met=bool(decision.meets),
        )
        if taken.ends is None or self._timetable is None:
            return report
        late = np.reshape(rest, (len(self.placed.replicas), -1)) * (self._exchange is None)
        self.taken.append(TakenPasses(taken.ends.took, late))
        return replace(
            report,
            arrivals=taken.ends.arrivals,
            late=tuple(late[:, -1].tolist()),
            buffered=self._timetable.buffered,
        )

    def _telling(self, decision: Decision) -> Telling:
        ratios = len(self.placed.ladder.ratios) if decision.watches else 0
        norms = decision.norms or decision.meets is None
        return Telling(len(self.placed.replicas), norms, decision.norms and not self._is_apart(decision), ratios)

    def _is_apart(self, decision: Decision) -> bool:
        """Whether each replica's gradient goes into its own values alone."""
        return not decision.meets or self._averages == "parameters"

    def warm_up(self, decision: Decision) -> None:
        """Take steps of every kind that can be decided, of which `decision` is one; what comes of them is of no use."""
        rhythm = self.strategy.discipline.rhythm
        either = rhythm is not None and rhythm.steps is not None and rhythm.steps > 1
        ladder = self.placed.ladder
        ways, ratios = range(len(ladder.transports)) or (None,), ladder.kinds or (decision.ratio,)
        for meets, transport, ratio in product((False, True) if either else (decision.meets,), ways, ratios):
            self.take(0, replace(decision, meets=meets, transport=transport, ratio=ratio))
            if meets is None:
                self.meet()

    def meet(self) -> None:
        """Let replicas average their parameters."""
        self._meet().numpy()
        if self._exchange:
            self._now += self._exchange(MEETING)

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Every variable's value as replica `replica` has it."""
        return self._step.values(replica)

    def state(self) -> StepState:
        """As of `Step.state`, with what each replica holds."""
        return state_of(self.placed, self._step.rule, self._own_variables)

    def load(self, state: StepState) -> None:
        """Go on from `state`; where it holds nothing of each replica's own, all have its values. Raises `SpecError`.

        No pass is under way then, and no example waits.
        """
        own = self._own_variables
        if state.own and [each.shape for each in state.own] != [tuple(each.shape) for each in own]:
            raise SpecError(
                "A saved state of replicas with values of their own fits the strategy it was saved with only."
            )
        self._step.load(state)
        if state.own:
            for variable, array in zip(own, state.own, strict=True):
                variable.assign(array)
        else:
            for each in self._meetings:
                each.begin()
        self._timetable = self._new_timetable()
        self.placed.wait()

    def settle(self) -> None:
        self._step.settle()

    def close(self) -> None:
        self._step.close()

    def _new_timetable(self) -> Timetable | None:
        waits = self.strategy.discipline.waits
        stops = waits is not None and waits.late == "stop"
        return Timetable(self._pacing.rates, stops, self.clock) if self._pacing else None

    @property
    def _own_variables(self) -> list[Any]:
        """All that may differ from one replica to the next, or is remembered of meetings."""
        held = [variable for each in self._held for variable in (each.value, *each.slots)]
        return [*held, *(variable for each in self._meetings for variable in each.variables)]

    def _function(self, decision: Decision) -> Any:
        """The traced function of steps that are decided like this."""
        whole = decision.ratio if self.placed.ladder.is_whole(decision.ratio) else None
        kind = replace(decision, first=None, ratio=whole, loads=None)
        if kind.norms and self._step.rule.rule.loss_scale is not None:
            raise SpecError("Gradients under loss scaling have norms of another scale; train without it.")
        if kind not in self._functions:
            self._functions[kind] = step_function(lambda *given: self._traced(kind, *given), reduce_retracing=True)
        return self._functions[kind]

    def _traced(self, kind: Decision, batches: Any, weights: Any, waited: Any, ratio: Any, sizes: Any) -> Any:
        """What a step of a `kind` of decisions tells, and where passes are `waited` for, so long after such delays, how
        late each one's releases were. float64.

        `batches` are None for the replicas' own, of which they take the first `sizes` examples if these are given.
        """
        import tensorflow as tf

        placed = self.placed
        placed.ladder.begin(ratio, kind.watches, kind.transport, whole=kind.ratio is not None)
        if batches is None:
            batches = [self._own.of(replica, sizes) for replica in placed.replicas]
        apart, telling = self._is_apart(kind), self._telling(kind)
        counted = weights if not apart or weights is None else tf.cast(weights > 0, weights.dtype)
        real = RealPasses(batches, counted)
        gate = (
            Gate(real, self._pacing, lambda replica: Duration(waited[0], waited[1], replica)) if self._pacing else None
        )
        results, updates = self._step.through(gate or real, apart, whole=telling.mean_norm)
        losses = [each.loss for each in results]
        if apart and weights is not None:
            shares = tf.unstack(weights, len(results))
            losses = [each * tf.cast(share, each.dtype) for each, share in zip(losses, shares, strict=True)]
        if kind.meets and apart:
            self._average()
        late = [each for report in gate.reports for each in tf.unstack(report[2:])] if gate else []
        return telling.told(placed, losses, results, updates, late)

    def _met(self) -> Any:
        import tensorflow as tf

        self._average()
        with tf.device(self.placed.devices[0]):
            return tf.constant(True)  # something to wait for; without a result, a call on workers only queues

    def _average(self) -> None:
        import tensorflow as tf

        for (held, mean), how in zip(self.placed.value_means(), self._meetings, strict=True):
            with tf.device(held.device):
                held.value.assign(how.met(mean))


def _of_counted(values: Sequence[Any], weights: Sequence[float]) -> tuple[Any, ...]:
    """`values`, by replica; None for those that weigh nothing."""
    return tuple(value if weight > 0 else None for value, weight in zip(values, weights, strict=True))
