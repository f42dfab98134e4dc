"""The passes of paced steps, and the summary of how closely a trial followed its pace."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from autosync.spec import ClusterSpec, KeptPace


@runtime_checkable
class PacedRunning(Protocol):
    """A running strategy whose passes may be paced, as every `TrainingStep` is.

    `taken` grows by one with every paced step: `seconds` float64 (replicas,), the requested durations of its passes,
    and `late` float64 (replicas, releases), the lateness of each release. `seed` selects the draws of the steps.
    """

    seed: int

    @property
    def recorded_steps(self) -> int: ...

    @property
    def taken(self) -> Sequence[Any]: ...


def kept_pace(
    step: PacedRunning, cluster: ClusterSpec, first: int, count: int, is_virtual: bool = False
) -> KeptPace | None:
    """Summarize how closely `count` steps of `step`, from number `first` on, followed the pace; None if no step was
    paced.
    """
    if not count or not step.taken:
        return None
    taken = step.taken[first : first + count]
    seconds, late = np.array([passes.seconds for passes in taken]), np.array([passes.late for passes in taken])
    by_replica = late.swapaxes(0, 1).reshape(late.shape[1], -1)

    def as_tuple(figures: Any) -> tuple[float, ...]:
        return tuple(float(figure) for figure in figures)

    return KeptPace(
        "virtual" if is_virtual else cluster.time,
        cluster.numbers,
        step.recorded_steps,
        as_tuple(np.median(seconds, axis=0)),
        as_tuple(np.median(seconds + late[:, :, -1], axis=0)),
        as_tuple(np.quantile(by_replica, 0.5, axis=1)),
        as_tuple(np.quantile(by_replica, 0.99, axis=1)),
    )
