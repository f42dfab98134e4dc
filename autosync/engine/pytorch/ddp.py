"""A replica under PyTorch's DistributedDataParallel itself, which trials time as users run it.

DDP wraps a module whose forward pass is any function that returns the loss, so that real and paced passes go through
the same reducer. The forward pass of a paced pass builds a chain of autograd functions, one per parameter. In the
backward pass, each function sleeps until its time and returns a given gradient, so DDP's hooks see a backward pass
that computes nothing. DDP keeps a copy of each of them, and takes a real gradient without a copy.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, final

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from autosync.engine.core.pacing import Moment
from autosync.engine.pytorch.compressed_buckets import compress_buckets
from autosync.engine.pytorch.settled import check, expectations, has_settled, variables_in_bf16
from autosync.engine.pytorch.task import ModuleTask
from autosync.engine.pytorch.transport import TransportError
from autosync.engine.pytorch.zero import shard_optimizer_on
from autosync.errors import SpecError
from autosync.spec import ModelSpec, Strategy, Variable

Wait = Callable[[], None]
HandedGradient = tuple[Wait | None, nn.Parameter, torch.Tensor]
"""The wait before a gradient is handed on, or None; the parameter; and its gradient."""

MOST_UNCHECKED = 6
"""Backward passes after which DDP has made its final buckets: with `static_graph` after two, otherwise after one."""


@final
class DDPReplica:
    """A replica of a module whose gradients DistributedDataParallel synchronizes."""

    memory: Mapping[str, torch.Tensor] = MappingProxyType({})
    """The tensors that later steps depend on: none."""

    def __init__(self, task: ModuleTask, strategy: Strategy, model: ModelSpec, process_group: Any) -> None:
        """Wrap the task's module, and its optimizer if the strategy says so; the ranks of `process_group` do so
        together. Raises `SpecError`."""
        settings = strategy.ddp
        assert settings is not None
        arguments = settings.arguments
        unknown = arguments.keys() - inspect.signature(DistributedDataParallel).parameters.keys()
        if unknown:
            raise SpecError(
                f"DistributedDataParallel of PyTorch {torch.__version__} has no argument {min(unknown)!r}; use a newer "
                "PyTorch, or a strategy without it."
            )
        self._expected, self._model = expectations(strategy), model
        self._parameters = task.parameters
        # All ranks begin with the captured values, so DDP need not send rank 0's to the others.
        self._module = DistributedDataParallel(
            _Body(task.module), process_group=process_group, init_sync=False, **arguments
        )
        if compressed := variables_in_bf16(strategy):
            compress_buckets(self._module, [task.parameters[name] for name in compressed])
        self.task = task
        """The task, with the optimizer that updates its parameters."""
        if settings.zero_redundancy_optimizer:
            sharded = shard_optimizer_on(process_group, task.optimizer, **settings.optimizer_arguments)
            self.task = replace(task, optimizer=sharded)
        self._passes = 0
        self._is_checked = False

    def backward(self, loss_function: Callable[[], torch.Tensor]) -> float:
        """A forward and a backward pass, after which gradients are means over all ranks; the loss of this rank.

        Raises `TransportError` if the pass fails, and `SpecError` if DDP does not run with its settings.
        """
        with _failing("A pass under DistributedDataParallel"):
            loss = self._module(loss_function)
            loss.backward()
        self._passes += 1
        if not self._is_checked:
            self._is_checked = self._check()
        return float(loss.detach())

    def update(self) -> None:
        """Update the parameters, on all ranks. Raises `TransportError` if ZeroRedundancyOptimizer cannot send them."""
        with _failing("An update"):
            self.task.optimizer.step()

    def play(
        self, releases: Sequence[Moment], begin: float, seconds: float, gradients: Mapping[str, torch.Tensor]
    ) -> tuple[float, ...]:
        """A pass of `seconds` from `begin` on, which computes nothing; return the lateness of each release."""
        late, variables = list[float](), self._model.variables

        def wait_until(due: float) -> None:
            left = due - time.perf_counter()
            if left > 0:
                time.sleep(left)
            late.append(time.perf_counter() - due)

        def schedule() -> Iterator[HandedGradient]:
            for release in releases:
                wait: Wait | None = partial(wait_until, begin + seconds * release.fraction)
                for variable in sorted((variables[number] for number in release.variables), key=_ready_order):
                    yield wait, self._parameters[variable.name], gradients[variable.name]
                    wait = None

        self.backward(lambda: playback_loss(list(schedule())))
        return tuple(late)

    def _check(self) -> bool:
        """Whether DDP has made its buckets. Raises `SpecError` if they or the settings are not the strategy's."""
        if not has_settled(self._module):
            if self._passes == MOST_UNCHECKED:
                raise SpecError(f"DistributedDataParallel has not made its buckets in {MOST_UNCHECKED} steps.")
            return False
        try:
            check(self._module, list(self._parameters), self._expected)
        except RuntimeError as error:
            raise SpecError(
                f"{error} Gradients become ready in another order than the strategy says, or it is not DDP's own."
            ) from None
        return True


@contextmanager
def _failing(action: str) -> Iterator[None]:
    """Raise errors of the block as `TransportError`."""
    try:
        yield
    except RuntimeError as error:
        raise TransportError(f"{action} failed: {error}") from error


def playback_loss(schedule: Sequence[HandedGradient]) -> torch.Tensor:
    """A loss whose backward pass gives each parameter its gradient, in this order, after the wait before it."""
    loss = torch.zeros((), requires_grad=True)
    for wait, parameter, gradient in reversed(schedule):
        loss = _Release.apply(loss, wait, gradient, parameter)
    return loss


def _ready_order(variable: Variable) -> int:
    return variable.ready_order


@final
class _Body(nn.Module):
    """A module with the parameters of another one, whose forward pass is the function that it is called with."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, loss_function: Callable[[], torch.Tensor]) -> torch.Tensor:
        return loss_function()


class _Release(torch.autograd.Function):
    """Waits in the backward pass, if it has something to wait for, and returns a given gradient of a parameter."""

    @staticmethod
    def forward(
        ctx: Any, token: torch.Tensor, wait: Wait | None, gradient: torch.Tensor, parameter: torch.Tensor
    ) -> torch.Tensor:
        del parameter
        ctx.wait, ctx.gradient = wait, gradient
        return token.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        if ctx.wait is not None:
            ctx.wait()
        return gradients[0], None, None, ctx.gradient
