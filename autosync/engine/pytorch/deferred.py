"""Updates of parameters whose mean gradients are still on their way when the optimizer steps.

Neither `backward()` nor `optimizer.step()` waits for a mean. The step updates the parameters whose means are there; the
first read of any other parameter waits for its mean, and updates the parameter then, so gradients travel during the
next forward pass. The numbers are those of a step with a barrier, to the bit: an update uses the settings of the
optimizer's step, such as the learning rate, and a read of `grad` before the step waits for the mean.

Sources: Peng et al., "A generic communication scheduler for distributed DNN training acceleration" (ByteScheduler),
SOSP 2019; Jayarajan et al., "Priority-based parameter propagation for distributed DNN training" (P3), MLSys 2019.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, final
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_map
from torch.utils.hooks import RemovableHandle

from autosync.engine.pytorch.late import LateParameter, expect, make_late, make_plain
from autosync.engine.pytorch.optimizer import is_separable, settings_of, updates_only


class Means(Protocol):
    """The mean gradients of a step, which arrive parameter by parameter."""

    def has_arrived(self, parameter: nn.Parameter) -> bool:
        """Whether the parameter's whole mean is here."""
        ...

    def wait_for_mean(self, parameter: nn.Parameter) -> None:
        """Wait until the parameter's whole mean is here. Raises `TransportError`."""
        ...

    def put_mean(self, parameter: nn.Parameter) -> None:
        """Make the mean, which is here, the parameter's `grad`."""
        ...


@dataclass(eq=False)
class _Step:
    """A step of an optimizer that has left out some parameters."""

    optimizer: torch.optim.Optimizer
    settings: Sequence[Mapping[str, Any]]
    """The settings of each parameter group in the step."""
    left: dict[nn.Parameter, LateGradient]
    """The parameters that are not updated yet, and their `grad` meanwhile."""


@final
class DeferredUpdates:
    """The updates that the optimizers of a process have left out because means were late."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._awaited: dict[nn.Parameter, None] = {}
        """Parameters whose means are late and that no optimizer has stepped over."""
        self._steps: dict[nn.Parameter, _Step] = {}
        """By parameter that waits for its update, the step that has left it out."""
        self._stepping: tuple[torch.optim.Optimizer, list[nn.Parameter]] | None = None
        """The optimizer that takes a step at present, and its late parameters."""
        self._arrivals: dict[nn.Parameter, float] = {}
        """The times, by `time.perf_counter`, at which means arrived that reads have waited for in this step."""
        self._update_seconds: dict[nn.Parameter, float] = {}
        """The seconds of the updates that first reads of parameters have made up for in this step."""
        self._separable: WeakKeyDictionary[torch.optim.Optimizer, bool] = WeakKeyDictionary()
        self._watched: WeakSet[torch.optim.Optimizer] = WeakSet()
        self._handles: list[RemovableHandle] = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]

    def await_means(self, parameters: Iterable[nn.Parameter]) -> None:
        """Take over these parameters at the end of a backward pass."""
        for parameter in parameters:
            if self._means.has_arrived(parameter):
                self._means.put_mean(parameter)
                continue
            parameter.grad = None  # the parameter's own gradient, which has been copied
            if make_late(parameter, partial(self._arrive, parameter), partial(self._before_gradient, parameter)):
                self._awaited[parameter] = None
            else:
                self._wait(parameter)
                self._means.put_mean(parameter)

    def settle(self) -> None:
        """Wait for all means, and make up for all updates. Raises `TransportError`."""
        self._stepping = None
        for parameter in [*self._awaited, *self._steps]:
            expect(parameter)

    def begin_step(self) -> None:
        """Settle, because gradients of a new step are about to come. Raises `TransportError`."""
        self.settle()
        self._arrivals, self._update_seconds = {}, {}

    def end_of_read(self, parameter: nn.Parameter, begin: float) -> float:
        """The end of a forward pass's read of `parameter` that begins at `begin`, both by `time.perf_counter`.

        The value has been read at any time since the last step; the wait for its mean and the update count as if that
        were at `begin`. The update counts once, in the first call.
        """
        arrival = self._arrivals.get(parameter, begin)
        return max(begin, arrival) + self._update_seconds.pop(parameter, 0.0)

    def abandon(self) -> None:
        """Leave out all updates that wait, and let go of the optimizers."""
        for parameter in [*self._awaited, *self._steps]:
            if isinstance(parameter, LateParameter):
                make_plain(parameter)
            parameter.grad = None
        self._awaited, self._steps = {}, {}
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Mapping[str, Any]) -> None:
        mine = [parameter for parameter in _parameters(optimizer) if parameter in self._awaited]
        if not mine:
            return
        given = [argument for argument in (kwargs.get("closure"), *args[1:]) if argument is not None]
        waits = bool(given) or not self._is_separable(optimizer)
        for parameter in mine:
            if waits or self._means.has_arrived(parameter):
                expect(parameter)
        self._stepping = optimizer, [parameter for parameter in mine if parameter in self._awaited]

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if self._stepping is None or self._stepping[0] is not optimizer:
            return  # hooks see the optimizers of the whole process
        (_, late), self._stepping = self._stepping, None
        if not late:
            return
        step = _Step(optimizer, settings_of(optimizer), {})
        for parameter in late:
            del self._awaited[parameter]
            step.left[parameter] = LateGradient(parameter)
            self._steps[parameter] = step
            parameter.grad = step.left[parameter]
        self._watch(optimizer)

    def _watch(self, optimizer: torch.optim.Optimizer) -> None:
        """Settle before the optimizer's state is read or replaced."""
        if optimizer not in self._watched:
            self._watched.add(optimizer)
            for register in (optimizer.register_state_dict_pre_hook, optimizer.register_load_state_dict_pre_hook):
                self._handles.append(register(lambda *_: self.settle()))

    def _is_separable(self, optimizer: torch.optim.Optimizer) -> bool:
        if optimizer not in self._separable:
            self._separable[optimizer] = is_separable(optimizer)
            if not self._separable[optimizer]:
                warnings.warn(
                    f"{type(optimizer).__name__} does not update each parameter alone, so its steps wait for all "
                    "gradients, and nothing overlaps with the next forward pass.",
                    stacklevel=2,
                )
        return self._separable[optimizer]

    def _before_gradient(self, parameter: nn.Parameter) -> None:
        """A read of `grad`: before the optimizer's step it waits; the optimizer's own read finds no gradient."""
        if self._stepping is None and parameter in self._awaited:
            expect(parameter)

    def _arrive(self, parameter: nn.Parameter) -> None:
        """The first read of a late parameter, which has its usual class again."""
        self._wait(parameter)
        if parameter in self._awaited:
            del self._awaited[parameter]
            self._means.put_mean(parameter)
            return
        step, begin = self._steps[parameter], time.perf_counter()
        # Calls of an optimizer cost more than updates, so an update takes along all parameters whose means are here.
        ready = [left for left in step.left if left is parameter or self._means.has_arrived(left)]
        for arrival in ready:
            if isinstance(arrival, LateParameter):
                make_plain(arrival)
            del self._steps[arrival]
        with self._gradients(ready, step), updates_only(step.optimizer, ready, step.settings) as update:
            update()
        self._update_seconds[parameter] = time.perf_counter() - begin

    @contextmanager
    def _gradients(self, parameters: Sequence[nn.Parameter], step: _Step) -> Iterator[None]:
        """In the block, `grad` is the mean; after it, `grad` is again as the user has left it since the step."""
        left = {parameter: parameter.grad for parameter in parameters}
        for parameter in parameters:
            parameter.grad = None
            self._means.put_mean(parameter)
            step.left[parameter].gradient = parameter.grad
        yield
        for parameter, gradient in left.items():
            placeholder = step.left.pop(parameter)
            if placeholder.is_zero:
                placeholder.gradient = torch.zeros_like(parameter)
            parameter.grad = placeholder.gradient if gradient is placeholder else gradient

    def _wait(self, parameter: nn.Parameter) -> None:
        if not self._means.has_arrived(parameter):
            self._means.wait_for_mean(parameter)
            self._arrivals[parameter] = time.perf_counter()


class LateGradient(torch.Tensor):
    """The `grad` of a parameter between the optimizer's step and the update: an operation on it waits for the mean."""

    parameter: nn.Parameter
    gradient: torch.Tensor | None
    """The gradient, once it is here."""
    is_zero: bool
    """Whether the user has set the gradient to zero."""

    @staticmethod
    def __new__(cls, parameter: nn.Parameter) -> LateGradient:
        with torch._C.DisableTorchFunctionSubclass():
            made: LateGradient = torch.Tensor._make_wrapper_subclass(
                cls, parameter.shape, dtype=parameter.dtype, device=parameter.device
            )
        made.parameter, made.gradient, made.is_zero = parameter, None, False
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return "<gradient on its way>"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func is torch.ops.aten.detach.default:
            return args[0]
        if func is torch.ops.aten.zero_.default:
            args[0].is_zero = True
            return args[0]
        return func(*tree_map(_gradient_for, args), **tree_map(_gradient_for, kwargs or {}))


def _gradient_for(value: Any) -> Any:
    """The gradient for which a late gradient stands; any other value as it is."""
    if not isinstance(value, LateGradient):
        return value
    expect(value.parameter)
    return value.gradient


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[nn.Parameter]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])
