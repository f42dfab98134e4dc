"""What is decided before a training step, and what is known after it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """What the next step does.

    `meets`: whether replicas meet in it; where that is None it is decided by what comes of it. Where they do not meet,
    each applies its own gradient to its own values. `first`: how many replicas it waits for; None for all. `ratio`:
    which of a fidelity's ratios top-k keeps, and `transport` by which of its transports that goes, each counted from 0;
    None for its own. With `watches` the report says what the
    others would have kept, with `norms` it has the gradients' squared norms. `loads` are the shares of a step's
    examples that replicas compute; None for equal ones.
    """

    meets: bool | None = True
    first: int | None = None
    ratio: int | None = None
    transport: int | None = None
    watches: bool = False
    norms: bool = False
    loads: tuple[float, ...] | None = None


@dataclass(frozen=True)
class StepReport:
    """What a controller may know of a step: what was decided before, and the mean loss before the update.

    By replica, and None for one that did not count: `examples`, how many it computed; `losses`, the mean loss of these;
    `square_norms`, the squared norm of its own gradient, where that was asked for or the step was to decide if replicas
    meet; `arrivals`, how many seconds after the step's beginning that gradient was there, where passes are paced or the
    step did not wait for all. One that was not waited for would have come after all the others. `late` is by how many
    seconds each paced pass ended too late. `energies[r]` are, where it was watched, the shares of the squared norm of
    replica r's gradient, with what it had not sent before, that each of a fidelity's ratios would have kept.

    `mean_square_norm` is the squared norm of the mean gradient as it was applied, but not clipped yet, where that was
    asked for and replicas met by gradients. `buffered` is how many examples wait at each replica after the step, None
    where they come in no stream. `met` is whether they met in the step, or right after it. `seconds` is how
    long it took, as the client saw it.
    """

    decision: Decision
    loss: float
    examples: tuple[int | None, ...] = ()
    losses: tuple[float | None, ...] = ()
    square_norms: tuple[float | None, ...] = ()
    mean_square_norm: float | None = None
    arrivals: tuple[float | None, ...] = ()
    late: tuple[float, ...] = ()
    met: bool = True
    energies: tuple[tuple[float, ...], ...] = ()
    buffered: tuple[float | None, ...] = ()
    seconds: float | None = None
