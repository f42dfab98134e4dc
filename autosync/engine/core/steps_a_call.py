"""Calls of several steps, between which no barrier is: the steps that overlap with the next forward pass."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

CALL_SECONDS = 2.0
"""A call takes at most this long, so that Ctrl-C, a time limit and an early stop wait no longer."""

MOST_STEPS = 4
"""The largest number of steps of a call: a call has three quarters of the gain, and takes four times as long to trace
as a step."""


@runtime_checkable
class OverlappedStep(Protocol):
    """A step whose engine takes several steps in one call. Only a strategy with `overlap_next_forward` wants that."""

    strategy: Any

    def several(self, count: int) -> list[float]:
        """Take `count` steps on the replicas' own batches in one call; return the mean loss of each before its
        update.
        """
        ...


def calls_of_several(step: Any) -> OverlappedStep | None:
    """Return `step` if its strategy lets steps overlap and its engine does so by calls of several steps."""
    return step if isinstance(step, OverlappedStep) and step.strategy.overlap_next_forward else None


def steps_a_call(step_seconds: float, *borders: int) -> int:
    """The largest power of two of at most `MOST_STEPS` steps that divides all `borders`, and whose call takes at most
    `CALL_SECONDS` at `step_seconds` a step.

    `borders` are the numbers of steps between which something acts that needs the end of a call.
    """
    count = MOST_STEPS
    while count > 1 and (count * step_seconds > CALL_SECONDS or any(border % count for border in borders)):
        count //= 2
    return count
