"""What a step's forward and backward passes are: what they look up, and what comes of them."""

from collections.abc import Sequence
from typing import Any, Protocol, final

from autosync.engine.step.replica import Lookups, Replica, Results


class Passes(Protocol):
    """The passes of all replicas in one step, while it is traced."""

    def look_up(self, replica: Replica) -> Lookups:
        """The rows of sparse variables that a replica's batch touches."""
        ...

    def run(self, replica: Replica, values: Sequence[Any], found: Lookups, /) -> Results:
        """The replica's loss and gradients at `values`; a sparse variable's value is its rows `found.ids`."""
        ...


@final
class RealPasses:
    """Passes that are computed, over a batch for each replica, which counts as `weights` (None: alike) say."""

    def __init__(self, batches: Sequence[Sequence[Any]], weights: Any) -> None:
        self._batches = batches
        self._weights = weights

    def look_up(self, replica: Replica) -> Lookups:
        return replica.look_up(self._batches[replica.number])

    def run(self, replica: Replica, values: Sequence[Any], found: Lookups) -> Results:
        weight = None if self._weights is None else self._weights[replica.number]
        return replica.run(values, self._batches[replica.number], found, weight)


def mean_loss(losses: Sequence[Any], device: str) -> Any:
    """The mean of the replicas' losses, on `device`."""
    import tensorflow as tf

    with tf.device(device):
        return tf.add_n(losses) * (1.0 / len(losses))
