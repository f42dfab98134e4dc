"""Passes in seconds, and the clocks that time them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Protocol, final


@dataclass(frozen=True)
class Passes:
    """Seconds of one replica's passes. `ready` is for each variable that has a gradient when it was there, counted
    from the loss; the last of them ends the backward pass."""

    forward: float
    backward: float
    ready: Mapping[str, float]

    @classmethod
    def median(cls, steps: Sequence["Passes"]) -> "Passes":
        """What steps took in the median, each figure by itself."""
        return cls(
            forward=median(each.forward for each in steps),
            backward=median(each.backward for each in steps),
            ready={name: median(each.ready[name] for each in steps) for name in steps[0].ready},
        )


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
class Marks:
    """When a step began, its loss was there, and each gradient was, as a clock marks it."""

    begin: Any
    loss: Any
    ready: Mapping[str, Any]

    def passes(self, clock: Clock) -> Passes:
        ready = {name: clock.seconds(self.loss, mark) for name, mark in self.ready.items()}
        return Passes(clock.seconds(self.begin, self.loss), max(ready.values()), ready)


def medians(marks: Iterable[Marks], clock: Clock) -> Passes:
    """What steps took in the median, once their marks are settled."""
    return Passes.median([each.passes(clock) for each in marks])
