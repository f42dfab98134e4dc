"""What a paced step says of its passes, and what a trial makes of it."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from autosync.spec import ClusterSpec, KeptPace


@runtime_checkable
class PacedRunning(Protocol):
    """A paced strategy at work; `autosync.engine.step.paced.PacedStep` is one.

    `taken` grows by one with every step: `seconds` float64 (replicas,) that its passes were to take, and `late` float64
    (replicas, releases), how late each release was. `seed` says which draws its steps take.
    """

    seed: int
    recorded_steps: int
    taken: Sequence[Any]


def kept_pace(
    step: PacedRunning, cluster: ClusterSpec, first: int, count: int, is_virtual: bool = False
) -> KeptPace | None:
    """How the pace was kept in `count` steps of `step` from number `first` on, on `cluster`; None for no steps."""
    if not count:
        return None
    taken = step.taken[first : first + count]
    seconds, late = np.array([each.seconds for each in taken]), np.array([each.late for each in taken])
    by_replica = late.swapaxes(0, 1).reshape(late.shape[1], -1)

    def each(figures: Any) -> tuple[float, ...]:
        return tuple(float(figure) for figure in figures)

    return KeptPace(
        "virtual" if is_virtual else cluster.time,
        cluster.numbers,
        step.recorded_steps,
        each(np.median(seconds, axis=0)),
        each(np.median(seconds + late[:, :, -1], axis=0)),
        each(np.quantile(by_replica, 0.5, axis=1)),
        each(np.quantile(by_replica, 0.99, axis=1)),
    )
