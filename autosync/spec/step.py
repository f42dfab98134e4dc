"""The decision before a training step, and the report after it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """A controller's decision about the next step."""

    meets: bool | None = True
    """Whether replicas meet in the step; None lets the step's gradients decide. Replicas that do not meet apply their
    own gradients to their own values."""
    first: int | None = None
    """How many replicas the step waits for; None for all."""
    ratio: int | None = None
    """Index, from 0, of the fidelity's ratio that top-k keeps; None for the compressor's ratio."""
    transport: int | None = None
    """Index, from 0, of the fidelity's transport for the kept elements; None for the strategy's exchange."""
    watches: bool = False
    """Whether the report states the share that every ratio of the fidelity would have kept (`StepReport.energies`)."""
    norms: bool = False
    """Whether the report states the gradients' squared norms."""
    loads: tuple[float, ...] | None = None
    """Share of the step's examples that each replica computes; None for equal shares."""


@dataclass(frozen=True)
class StepReport:
    """The observations of a step that a controller may use.

    Tuples have an entry per replica. An entry is None if the replica's gradient did not count.
    """

    decision: Decision
    """The decision that the step carried out."""
    loss: float
    """Mean loss before the update."""
    examples: tuple[int | None, ...] = ()
    """Number of examples that the replica computed."""
    losses: tuple[float | None, ...] = ()
    """Mean loss of the replica's examples."""
    square_norms: tuple[float | None, ...] = ()
    """Squared norm of the replica's gradient. Stated if the decision asked for norms or let the step decide whether
    replicas meet."""
    mean_square_norm: float | None = None
    """Squared norm of the applied mean gradient before clipping. Stated if the decision asked for norms and replicas
    met by gradients."""
    arrivals: tuple[float | None, ...] = ()
    """Seconds from the step's start until the replica's gradient was ready. Stated if passes are paced or the step did
    not wait for all replicas. A replica that the step did not wait for would have arrived after all stated ones."""
    late: tuple[float, ...] = ()
    """Seconds by which the replica's paced pass ended too late."""
    met: bool = True
    """Whether replicas met in the step or right after the step."""
    energies: tuple[tuple[float, ...], ...] = ()
    """Per replica, and per ratio of the fidelity: share of the squared norm that the ratio would have kept. The norm is
    of the gradient plus the residual of earlier steps. Empty unless the decision watches."""
    buffered: tuple[float | None, ...] = ()
    """Number of examples that wait at the replica after the step; None without a stream."""
    seconds: float | None = None
    """Duration of the step as the client measured it."""
