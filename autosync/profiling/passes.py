"""Timed passes: when a pass's loss was there, and each variable's gradient."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, Protocol, final


class Clock(Protocol):
    """Marks moments of what a device does, and says later how far apart they were."""

    def mark(self) -> Any:
        """Now, or when the device will have done what it was given so far."""

    def settle(self) -> None:
        """Wait until everything that was marked has come to pass."""

    def seconds(self, begin: Any, end: Any) -> float:
        """From one mark to another, once both are settled."""


@final
class HostClock:
    """The clock of a device that has done its work when a call returns."""

    def mark(self) -> float:
        return perf_counter()

    def settle(self) -> None:
        pass

    def seconds(self, begin: float, end: float) -> float:
        return end - begin


@final
class CudaClock:
    """The clock of a GPU: events among its kernels. What the host does meanwhile counts only where the GPU waits."""

    def mark(self) -> Any:
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def settle(self) -> None:
        import torch

        torch.cuda.synchronize()

    def seconds(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) * 1e-3


@dataclass(frozen=True)
class Passes:
    """Seconds of one replica's passes. `ready` is for each variable that has a gradient when it was there, counted
    from the loss; the last of them ends the backward pass."""

    forward: float
    backward: float
    ready: Mapping[str, float]


@dataclass
class _Marks:
    begin: Any
    loss: Any
    ready: dict[str, Any]


def timed_passes(
    loss: Callable[[], Any], parameters: Mapping[str, Any], clock: Clock, warmup: int, steps: int
) -> Passes:
    """Medians over `steps` forward and backward passes, after `warmup` more.

    `loss` makes a forward pass. `parameters` are torch's by the names of variables; their gradients are dropped
    between steps (set to None), so that each pass makes its own. The device is not waited for between steps, as in
    training, where the host is ahead of it.
    """
    ready: dict[str, Any] = {}

    def note(name: str, _: Any) -> None:
        ready[name] = clock.mark()

    hooks = [each.register_post_accumulate_grad_hook(partial(note, name)) for name, each in parameters.items()]
    marks: list[_Marks] = []
    try:
        for step in range(warmup + steps):
            for each in parameters.values():
                each.grad = None
            ready = {}
            begin = clock.mark()
            value = loss()
            made = clock.mark()
            value.backward()
            if step >= warmup:
                marks.append(_Marks(begin, made, ready))
        clock.settle()
    finally:
        for hook in hooks:
            hook.remove()
    return _medians(marks, clock)


def _medians(marks: Sequence[_Marks], clock: Clock) -> Passes:
    names = list(marks[0].ready)
    ready = [{name: clock.seconds(each.loss, each.ready[name]) for name in names} for each in marks]
    return Passes(
        forward=median(clock.seconds(each.begin, each.loss) for each in marks),
        backward=median(max(each.values()) for each in ready),
        ready={name: median(each[name] for each in ready) for name in names},
    )
