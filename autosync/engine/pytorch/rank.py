"""One rank of a session: its replica of the model, and the steps that it takes under a strategy."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, final

import torch

from autosync.engine.core.pacing import PassMoments
from autosync.engine.core.touched_rows import SAMPLED_BATCHES
from autosync.engine.pytorch.capture import CapturedModule
from autosync.engine.pytorch.ddp import DDPReplica
from autosync.engine.pytorch.deferred import DeferredUpdates
from autosync.engine.pytorch.distribution import check_supported
from autosync.engine.pytorch.factors import FactoredGradient, FactorTaps
from autosync.engine.pytorch.late import expect
from autosync.engine.pytorch.lookups import ApartLookups, lookups_of
from autosync.engine.pytorch.optimizer import is_separable
from autosync.engine.pytorch.plan import ExchangePlan, plan
from autosync.engine.pytorch.random_state import fix_random_state
from autosync.engine.pytorch.state import Tensors, load_on, state_on
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.engine.pytorch.task import ModuleTask, copy_batch, state_of
from autosync.engine.pytorch.transport import RankTransport, TransportError
from autosync.errors import SpecError
from autosync.layout.apart import apart, rows_of, table_of
from autosync.spec import ClusterSpec, ModelSpec, Strategy

RECORDED_STEPS = 2
"""Real steps whose gradients are recorded, and replayed in turn."""

STEP_SECONDS = 120.0
"""Seconds that a rank waits for the others in a step."""

_GENERATORS = threading.Lock()
"""Held in a forward pass of training, because ranks that are threads of one process share the random generators."""


@dataclass(frozen=True)
class TakenStep:
    """The outcome of a rank's step."""

    loss: float
    """The loss of this replica before the update."""
    late: tuple[float, ...] = ()
    """Seconds by which each release of a paced pass was late."""


@dataclass(frozen=True)
class _Recorded:
    """The results of a real step: a loss, and a gradient per parameter."""

    loss: float
    gradients: dict[str, torch.Tensor]
    factors: dict[str, FactoredGradient]
    """By parameter, the gradient as sufficient factors, if it has them."""
    apart: dict[str, torch.Tensor]
    """The gradients of tied tables without those of their lookups, and the gradients of the lookups."""


@final
class Rank:
    """A replica of a captured module on one rank of a cluster."""

    def __init__(
        self,
        captured: CapturedModule,
        cluster: ClusterSpec,
        transport: RankTransport,
    ) -> None:
        self._captured = captured
        self._cluster = cluster
        self._transport = transport
        self._laid_out = captured.spec
        """The model, with looked-up rows that the strategy sends apart as variables of their own."""
        self._moments = PassMoments()
        """The moments of a paced pass, by the numbers of the variables of `_laid_out`."""
        self._recordings: list[_Recorded] = []
        self._batches: list[tuple[Any, Any]] = []
        """The batches of this rank in timed steps; none if it takes the example batch."""
        self._task: ModuleTask | None = None
        self._synchronizer: GradientSynchronizer | DDPReplica | None = None
        self._steps = 0
        self._trains = False

    @property
    def model(self) -> ModelSpec:
        return self._captured.spec

    def realize(self, strategy: Strategy, trains: bool = False) -> None:
        """Begin again from the captured values, under `strategy`. Raises `SpecError` when it cannot be carried out.

        With `trains`, steps take the model's data; otherwise they take batches that are read here, before any step.
        Raises `ModelError` if a batch cannot be read.
        """
        check_supported(strategy, self.model, self._cluster)
        self.end()
        self._laid_out, _ = apart(self.model, strategy)
        self._moments = PassMoments.of(self._laid_out) if self._cluster.paced else PassMoments()
        task = self._captured.task.fresh()
        if not trains:
            self._read_batches(task)
        if strategy.ddp is None:
            self._synchronizer = self._gradient_synchronizer(task, strategy)
        else:
            self._synchronizer = replica = self._ddp_replica(task, strategy)
            task = replica.task
        self._task, self._steps, self._trains = task, 0, trains

    def _ddp_replica(self, task: ModuleTask, strategy: Strategy) -> DDPReplica:
        collectives = self._transport.collectives
        if collectives is None:
            raise SpecError(
                "DistributedDataParallel needs a process for each replica; use worker processes, not a local back end."
            )
        return DDPReplica(task, strategy, self.model, collectives.process_group)

    def _gradient_synchronizer(self, task: ModuleTask, strategy: Strategy) -> GradientSynchronizer:
        overlaps = strategy.overlap_next_forward
        if overlaps and not is_separable(task.optimizer):
            raise SpecError(
                f"{type(task.optimizer).__name__} does not update each parameter alone, so updates cannot wait for the "
                "next forward pass; set overlap_next_forward to false."
            )
        devices = [str(device) for device in self._cluster.replica_devices]
        order = sorted(self._laid_out.variables, key=lambda variable: variable.ready_order)
        spec, variables = self.model, self._laid_out.variables

        def plan_of(names: Sequence[str]) -> ExchangePlan:
            del names  # the capture has measured the order, and it is the same on all ranks
            return plan(strategy, spec, self._cluster)

        return GradientSynchronizer(
            task.parameters,
            plan_of,
            self._transport,
            [devices.index(replica) for replica in strategy.replicas],
            timeout_seconds=STEP_SECONDS,
            order=[variable.name for variable in order],
            reads=[variables[number].name for read in self._moments.reads for number in read.variables] or None,
            overlaps=overlaps,
            module=task.module,
            rows_apart=strategy.rows_apart,
        )

    def step(self, seconds: float | None = None, is_held: bool = False) -> TakenStep:
        """Take a step. With `seconds`, the pass is paced to take as long; its gradients are recorded ones, or real ones
        that are held until their time. Raises `TransportError`."""
        task, synchronizer = self._running()
        task.optimizer.zero_grad()
        if seconds is None:
            taken = TakenStep(self._backward(task, self._steps, synchronizer))
        elif is_held:
            taken = self._hold(task, synchronizer, seconds)
        else:
            taken = self._replay(task, synchronizer, seconds)
        if isinstance(synchronizer, DDPReplica):
            synchronizer.update()
        else:
            task.optimizer.step()
        self._steps += 1
        return taken

    def record(self) -> None:
        """Record the real steps that paced passes replay, unless that was done before."""
        if self._recordings:
            return
        task = self._captured.task.fresh()
        factored = [variable.name for variable in self.model.variables if variable.factor_rows is not None]
        taps = FactorTaps(task.module, [task.parameters[name] for name in factored])
        tables = [name for name in self.model.weight_tied_tables if lookups_of(task.module, task.parameters[name])]
        lookups = ApartLookups(task.module, {name: task.parameters[name] for name in tables})
        caught = {name: task.parameters[name] for name in tables} | lookups.named
        for number in range(RECORDED_STEPS):
            task.optimizer.zero_grad()
            loss = self._backward(task, number)
            separate = {name: _present(parameter.grad).clone() for name, parameter in caught.items()}
            for rows in lookups.named.values():
                lookups.fold(rows)
            gradients = {name: _present(parameter.grad).clone() for name, parameter in task.parameters.items()}
            factors = {name: taps.take(task.parameters[name]) for name in factored}
            self._recordings.append(_Recorded(loss, gradients, factors, separate))

    def values(self) -> dict[str, torch.Tensor]:
        """Contiguous copies of all parameters and buffers, by name."""
        task, _ = self._running()
        return {
            name: tensor.detach().clone(memory_format=torch.contiguous_format)
            for name, tensor in state_of(task.module).items()
        }

    def state(self) -> Tensors:
        """Copies of this rank's tensors of the state. Raises `SpecError` if they cannot be told."""
        task, synchronizer = self._at_rest()
        return state_on(task, self._transport.rank, synchronizer.memory)

    def load_state(self, tensors: Mapping[str, torch.Tensor], steps: int) -> None:
        """Go on from a state of all ranks after `steps` steps."""
        task, synchronizer = self._at_rest()
        load_on(task, self._transport.rank, tensors, synchronizer.memory)
        self._steps = steps

    def end(self) -> None:
        """End the strategy that runs, if one does. The transport stays."""
        if isinstance(self._synchronizer, GradientSynchronizer):
            with suppress(TransportError):  # the next strategy has to know
                self._synchronizer.settle()
            self._synchronizer.remove_hooks()
        self._synchronizer = self._task = None

    def _running(self) -> tuple[ModuleTask, GradientSynchronizer | DDPReplica]:
        if self._task is None or self._synchronizer is None:
            raise SpecError("No strategy runs on this rank; realize one first.")
        return self._task, self._synchronizer

    def _at_rest(self) -> tuple[ModuleTask, GradientSynchronizer | DDPReplica]:
        task, synchronizer = self._running()
        if isinstance(synchronizer, GradientSynchronizer):
            synchronizer.settle()
        return task, synchronizer

    def _backward(self, task: ModuleTask, number: int, synchronizer: object = None) -> float:
        """Compute the gradients of this rank's batch in step `number`; return the loss.

        In training, the batch's number is the seed of random numbers such as dropout's: a resumed run draws the same.
        DDP takes part only if it is the `synchronizer`; hooks of a `GradientSynchronizer` take part in any case.
        """
        batch = self._transport.rank + self._transport.size * number

        def loss_function() -> torch.Tensor:
            if not self._trains:
                return task.loss_on(self._batch_in_turn(task, number))
            with _GENERATORS, fix_random_state(batch % (1 << 32)):
                return task.loss_on(task.training_batch(batch))

        if isinstance(synchronizer, DDPReplica):
            return synchronizer.backward(loss_function)
        loss = loss_function()
        loss.backward()
        return float(loss.detach())

    def _read_batches(self, task: ModuleTask) -> None:
        """Read the batches of timed steps, unless that was done before or the example batch serves as well.

        The example batch does not serve for sparse gradients: rolled, it looks up the same rows on all ranks.
        """
        if not self._batches and task.data is not None and any(variable.sparse for variable in self.model.variables):
            rank, size = self._transport.rank, self._transport.size
            with _GENERATORS:
                self._batches = [task.read_batch(rank + size * turn) for turn in range(SAMPLED_BATCHES)]

    def _batch_in_turn(self, task: ModuleTask, number: int) -> tuple[Any, Any]:
        """This rank's batch in timed step `number`: one of its own batches, or the example batch, rolled so that
        batches differ."""
        if self._batches:
            return copy_batch(self._batches[number % len(self._batches)])
        return task.batch_of(self._transport.rank + self._transport.size * number)

    def _hold(self, task: ModuleTask, synchronizer: GradientSynchronizer | DDPReplica, seconds: float) -> TakenStep:
        """A paced pass that computes first, and then releases its gradients at their times."""
        begin = time.perf_counter()
        ours = synchronizer if isinstance(synchronizer, GradientSynchronizer) else None
        with nullcontext() if ours is None else ours.paused(keeps_rows=True):
            loss = self._backward(task, self._steps)
        parameters = task.parameters if ours is None else ours.parameters
        gradients = {name: _present(parameter.grad) for name, parameter in parameters.items()}
        return TakenStep(loss, self._release(task, synchronizer, begin, seconds, gradients))

    def _replay(self, task: ModuleTask, synchronizer: GradientSynchronizer | DDPReplica, seconds: float) -> TakenStep:
        """A paced pass of recorded gradients: nothing is computed, so the processors are free for communication."""
        begin, recorded = time.perf_counter(), self._recordings[self._steps % RECORDED_STEPS]
        gradients = recorded.gradients
        if isinstance(synchronizer, GradientSynchronizer):
            for name, pair in recorded.factors.items():
                synchronizer.taps.put(task.parameters[name], pair)
            for table in synchronizer.rows_apart:
                gradients = gradients | {name: recorded.apart[name] for name in (table, rows_of(table))}
        return TakenStep(recorded.loss, self._release(task, synchronizer, begin, seconds, gradients))

    def _release(
        self,
        task: ModuleTask,
        synchronizer: GradientSynchronizer | DDPReplica,
        begin: float,
        seconds: float,
        gradients: Mapping[str, torch.Tensor],
    ) -> tuple[float, ...]:
        """Hand all gradients over at their times in a pass of `seconds` from `begin` on; return the lateness of each
        release."""
        if isinstance(synchronizer, DDPReplica):
            task.optimizer.zero_grad()
            return synchronizer.play(self._moments.releases, begin, seconds, gradients)
        late, parameters, variables = list[float](), synchronizer.parameters, self._laid_out.variables
        if synchronizer.deferred is not None:
            begin += self._read(task, synchronizer.deferred, begin, seconds)
        with synchronizer.backward_pass() as complete:
            for release in self._moments.releases:
                late.append(_wait_until(begin + seconds * release.fraction))
                for number in release.variables:
                    name = variables[number].name
                    complete(parameters[name], gradients[name])
        return tuple(late)

    def _read(self, task: ModuleTask, updates: DeferredUpdates, begin: float, seconds: float) -> float:
        """Read all values at their times in a forward pass from `begin` on; return the seconds for which the pass stood
        still because it waited for values or updated them."""
        stalled = 0.0
        for read in self._moments.reads:
            due = begin + stalled + seconds * read.fraction
            _wait_until(due)
            end = due
            for number in read.variables:
                parameter = task.parameters[table_of(self._laid_out.variables[number].name)]
                expect(parameter)
                end = updates.end_of_read(parameter, end)
            stalled += end - due
        return stalled


def _wait_until(due: float) -> float:
    """Sleep until `due` by the clock of `time.perf_counter`; return by how much that came late, in seconds."""
    left = due - time.perf_counter()
    if left > 0:
        time.sleep(left)
    return time.perf_counter() - due


def _present(gradient: torch.Tensor | None) -> torch.Tensor:
    assert gradient is not None, "a captured module gives every parameter a gradient"
    return gradient
