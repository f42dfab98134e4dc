"""What is decided before a training step, and what is known after it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """What the next step does. Where replicas do not meet, each applies its own gradient to its own values."""

    meets: bool = True


@dataclass(frozen=True)
class StepReport:
    """What a controller may know of a step: what was decided, and the mean loss before the update."""

    decision: Decision
    loss: float
