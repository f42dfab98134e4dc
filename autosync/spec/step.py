"""What is decided before a training step, and what is known after it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """What the next step does.

    `meets`: whether replicas meet in it; where that is None it is decided by what comes of it. Where they do not meet,
    each applies its own gradient to its own values. `first`: how many replicas it waits for; None for all. `ratio`:
    which of a fidelity's ratios top-k keeps, counted from 0; None for its own. With `watches` the report says what the
    others would have kept. `loads` are the shares of a step's examples that replicas compute; None for equal ones.
    """

    meets: bool | None = True
    first: int | None = None
    ratio: int | None = None
    watches: bool = False
    loads: tuple[float, ...] | None = None


@dataclass(frozen=True)
class StepReport:
    """What a controller may know of a step: what was decided before, and the mean loss before the update.

    `square_norms` are those of each replica's own gradient, where the step was to decide if replicas meet. `arrivals`
    are, where it did not wait for all, how many seconds after its beginning each replica's gradient was there; None for
    one that it did not wait for, which would have come after all the others. `late` is by how many seconds each paced
    pass ended too late. `met` is whether replicas met in it, or right after it. `energies[r]` are, where it was
    watched, the shares of the squared norm of replica r's gradient, with what it had not sent before, that each of a
    fidelity's ratios would have kept.
    """

    decision: Decision
    loss: float
    square_norms: tuple[float, ...] = ()
    arrivals: tuple[float | None, ...] = ()
    late: tuple[float, ...] = ()
    met: bool = True
    energies: tuple[tuple[float, ...], ...] = ()
