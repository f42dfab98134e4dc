"""What is decided before a training step, and what is known after it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """What the next step does: whether replicas meet in it. Where that is None it is decided by what comes of it.

    Where they do not meet, each applies its own gradient to its own values.
    """

    meets: bool | None = True


@dataclass(frozen=True)
class StepReport:
    """What a controller may know of a step: what was decided before, and the mean loss before the update.

    `square_norms` are those of each replica's own gradient, where the step was to decide if replicas meet.
    """

    decision: Decision
    loss: float
    square_norms: tuple[float, ...] = ()
