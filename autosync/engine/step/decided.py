"""Steps that do what is decided before each: whether replicas meet or each follows its own gradient, what top-k keeps,
how many examples each replica takes; and where passes are paced, without whom a step goes on.

All are functions over one layout, chosen by whoever takes a step, so nothing in a step waits for what is decided. Whose
gradients count is a weight for each, given to a step that has been traced before: where passes are paced it is known
beforehand who will be late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from autosync.engine.capture.optimizer import NO_RULE
from autosync.engine.step.dealing import OwnBatches, counted_alone, dealt_anew, dealt_out
from autosync.engine.step.pace import Duration, Pacing
from autosync.engine.step.paced import Gate, TakenPasses
from autosync.engine.step.passes import RealPasses, mean_loss
from autosync.engine.step.replica import Results
from autosync.engine.step.step_function import step_function
from autosync.engine.step.step_state import StepState, state_of
from autosync.engine.step.timetable import Timetable
from autosync.engine.sync.meeting import meeting
from autosync.engine.training.training import weights as weights_by_examples
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport

if TYPE_CHECKING:
    from autosync.engine.step.placed import Placed
    from autosync.engine.step.realize import Step


@dataclass(frozen=True)
class _Dealt:
    """What a traced step is `given`, and what is known of it beforehand."""

    given: tuple[Any, ...]
    arrivals: tuple[float | None, ...]
    seconds: npt.NDArray[np.float64] | None


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
        stops = discipline.waits is not None and discipline.waits.late == "stop"
        self._timetable = Timetable(len(step.placed.replicas), stops)
        self._averages = rhythm.averages if rhythm else "gradients"
        self._held = step.placed.replicated() if rhythm else []
        self._meetings = [meeting(rhythm, held, len(step.placed.replicas)) for held in self._held] if rhythm else []
        step.placed.wait()
        self._own = OwnBatches(None if discipline.loads is None else discipline.loads.shares)
        self._functions: dict[tuple[bool | None, bool], Any] = {}
        self._meet = step_function(self._met)

    @property
    def placed(self) -> Placed:
        return self._step.placed

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
        taken = self._dealt(number, decision, batches, weights)
        told = self._function(decision)(*taken.given).numpy()
        if taken.arrivals:
            self._timetable.end()
        return self._report(decision, taken, told.tolist())

    def _dealt(
        self,
        number: int,
        decision: Decision,
        batches: Sequence[Sequence[Any]] | None,
        weights: Sequence[float] | None,
    ) -> _Dealt:
        """What a step is given: batches, what replicas' gradients count, how long passes take, and what top-k keeps."""
        import tensorflow as tf

        replicas = len(self.placed.replicas)
        examples = [1.0] * replicas
        if decision.loads is not None:
            if batches is None:
                sizes = dealt_out(self._step.batch_size * replicas, decision.loads)
                weights = weights_by_examples(sizes)
                examples = [size / self._step.batch_size for size in sizes]
            else:
                batches, weights = dealt_anew(batches, weights, decision.loads)
        if batches is not None:
            examples = [int(batch[0].shape[0]) / self._step.batch_size for batch in batches]
        seconds, arrivals = None, tuple[float | None, ...]()
        if self._pacing:
            seconds = self._pacing.seconds(self.seed, number, examples)
            if decision.first is not None:
                weights = weights or [1.0] * replicas
                ends = self._timetable.begin(seconds, [each > 0 for each in weights], decision.first)
                arrivals, seconds = ends.arrivals, ends.waited
                weights = counted_alone(weights, [each is not None for each in arrivals])
        given = (
            None if batches is None else [list(batch) for batch in batches],
            None if weights is None else tf.constant(list(weights), tf.float32),
            seconds,
            None if decision.ratio is None else tf.constant(decision.ratio),
            None if batches is not None or decision.loads is None else tf.constant(sizes),
        )
        return _Dealt(given, arrivals, seconds)

    def _report(self, decision: Decision, taken: _Dealt, told: list[float]) -> StepReport:
        """What a step has told, in the order of `_traced`."""
        replicas = len(self.placed.replicas)
        norms = tuple(told[1 : 1 + replicas] if decision.meets is None else ())
        rest, energies, late = told[1 + len(norms) :], tuple[tuple[float, ...], ...](), tuple[float, ...]()
        if decision.watches:
            ratios = len(self.placed.ladder.ratios)
            energies = tuple(tuple(rest[each * ratios : (each + 1) * ratios]) for each in range(replicas))
            rest = rest[replicas * ratios :]
        if taken.seconds is not None:
            self.taken.append(TakenPasses(taken.seconds, np.reshape(rest, (replicas, -1))))
            late = tuple(self.taken[-1].late[:, -1].tolist())
        return StepReport(decision, told[0], norms, taken.arrivals, late, bool(decision.meets), energies)

    def warm_up(self, decision: Decision) -> None:
        """Take steps of every kind that can be decided, of which `decision` is one; what comes of them is of no use."""
        rhythm = self.strategy.discipline.rhythm
        either = rhythm is not None and rhythm.steps is not None and rhythm.steps > 1
        for meets in (False, True) if either else (decision.meets,):
            self.take(0, replace(decision, meets=meets))
            if meets is None:
                self.meet()

    def meet(self) -> None:
        """Let replicas average their parameters."""
        self._meet().numpy()

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Every variable's value as replica `replica` has it."""
        return self._step.values(replica)

    def state(self) -> StepState:
        """As of `Step.state`, with what each replica holds."""
        return state_of(self.placed, self._step.rule, self._own_variables)

    def load(self, state: StepState) -> None:
        """Go on from `state`; where it holds nothing of each replica's own, all have its values. Raises `SpecError`."""
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
        self.placed.wait()

    def settle(self) -> None:
        self._step.settle()

    def close(self) -> None:
        self._step.close()

    @property
    def _own_variables(self) -> list[Any]:
        """All that may differ from one replica to the next, or is remembered of meetings."""
        held = [variable for each in self._held for variable in (each.value, *each.slots)]
        return [*held, *(variable for each in self._meetings for variable in each.variables)]

    def _function(self, decision: Decision) -> Any:
        """The traced function of steps that are decided like this."""
        kind = decision.meets, decision.watches
        if kind not in self._functions:
            self._functions[kind] = step_function(lambda *given: self._traced(*kind, *given), reduce_retracing=True)
        return self._functions[kind]

    def _traced(
        self, meets: bool | None, watches: bool, batches: Any, weights: Any, seconds: Any, ratio: Any, sizes: Any
    ) -> Any:
        """The mean loss; where it is to be decided if replicas meet, the squared norm of each one's gradient; with
        `watches` of each one what every ratio would have kept; and where passes are paced to take `seconds`, how late
        each one's releases were. float64.

        `batches` are None for the replicas' own, of which they take the first `sizes` examples if these are given.
        """
        import tensorflow as tf

        placed = self.placed
        placed.ladder.begin(ratio, watches)
        if batches is None:
            batches = [self._own.of(replica, sizes) for replica in placed.replicas]
        apart = not meets or self._averages == "parameters"
        counted = weights if not apart or weights is None else tf.cast(weights > 0, weights.dtype)
        real = RealPasses(batches, counted)
        gate = Gate(real, self._pacing, lambda replica: Duration(seconds, replica)) if self._pacing else None
        results = self._step.through(gate or real, apart)
        losses = [each.loss for each in results]
        if apart and weights is not None:
            shares = tf.unstack(weights, len(results))
            losses = [each * tf.cast(share, each.dtype) for each, share in zip(losses, shares, strict=True)]
        if meets and apart:
            self._average()
        told = [mean_loss(losses, placed.devices[0])]
        if meets is None:
            told += [_square_norm(*each) for each in zip(results, placed.devices, strict=True)]
        if watches:
            told += [energy for device in placed.devices for energy in tf.unstack(placed.ladder.energies(device))]
        if gate:
            told += [late for each in gate.reports for late in tf.unstack(each[2:])]
        with tf.device(placed.devices[0]):
            return tf.stack([tf.cast(each, tf.float64) for each in told])

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


def _square_norm(result: Results, device: str) -> Any:
    """The squared norm of all of a replica's gradients together, on its device, float64."""
    import tensorflow as tf

    with tf.device(device):
        return tf.add_n([tf.cast(tf.nn.l2_loss(each), tf.float64) for each in result.gradients.values()]) * 2
