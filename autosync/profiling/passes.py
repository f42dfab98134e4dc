"""Pass times in seconds, and the clocks that measure them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Protocol, final


@dataclass(frozen=True)
class PassTimes:
    """Seconds of one replica's passes."""

    forward: float
    """Seconds of the forward pass."""
    backward: float
    """Seconds of the backward pass, which ends with the last gradient."""
    ready: Mapping[str, float]
    """Seconds from the loss to each variable's gradient, for variables that have one."""

    @classmethod
    def median(cls, steps: Sequence["PassTimes"]) -> "PassTimes":
        """Return the median over steps of each figure separately."""
        return cls(
            forward=median(step.forward for step in steps),
            backward=median(step.backward for step in steps),
            ready={name: median(step.ready[name] for step in steps) for name in steps[0].ready},
        )


class PassClock(Protocol):
    """Marks moments of a device's work, and later returns the time between them."""

    def mark(self) -> Any:
        """Mark this moment, or the moment when the device completes the work queued so far."""

    def settle(self) -> None:
        """Wait until the device has reached all marks."""

    def seconds(self, begin: Any, end: Any) -> float:
        """Return the seconds from one mark to another, after both are settled."""


@final
class HostClock:
    """The clock of a device that has completed its work when a call returns."""

    def mark(self) -> float:
        return perf_counter()

    def settle(self) -> None:
        pass

    def seconds(self, begin: float, end: float) -> float:
        return end - begin


@final
class CudaClock:
    """The clock of a GPU: events among its kernels. The host's work counts only when the GPU waits for it."""

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
    """A clock's marks of a step."""

    begin: Any
    """The start of the step."""
    loss: Any
    """The moment when the loss was ready."""
    ready: Mapping[str, Any]
    """The moment when each gradient was ready."""

    def passes(self, clock: PassClock) -> PassTimes:
        ready = {name: clock.seconds(self.loss, mark) for name, mark in self.ready.items()}
        return PassTimes(clock.seconds(self.begin, self.loss), max(ready.values()), ready)


def medians(marks: Iterable[Marks], clock: PassClock) -> PassTimes:
    """Return the medians over steps, after their marks are settled."""
    return PassTimes.median([mark.passes(clock) for mark in marks])
