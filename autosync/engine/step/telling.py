"""What a step tells of its replicas, in one tensor of numbers, and the report that these make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from autosync.engine.step.correction import square_norm
from autosync.engine.step.passes import mean_loss
from autosync.engine.step.replica import Results
from autosync.spec import Decision, StepReport

if TYPE_CHECKING:
    from autosync.engine.step.placed import Placed
    from autosync.engine.sync.update import Update


@dataclass(frozen=True)
class Telling:
    """Which numbers a step of so many `replicas` tells, in their order: the mean loss, and each replica's.

    With `norms` the squared norm of each one's gradient, and with `mean_norm` that of their mean; with `ratios` of each
    replica what so many of a fidelity's ratios would have kept.
    """

    replicas: int
    norms: bool = False
    mean_norm: bool = False
    ratios: int = 0

    def told(
        self,
        placed: Placed,
        losses: Sequence[Any],
        results: Sequence[Results],
        updates: Sequence[Update],
        more: Sequence[Any] = (),
    ) -> Any:
        """The numbers, float64, and `more` of them at the end; called while a step is traced."""
        import tensorflow as tf

        first = placed.devices[0]
        told = [mean_loss(losses, first), *losses]
        if self.norms:
            told += [each.square_norm(device) for each, device in zip(results, placed.devices, strict=True)]
        if self.mean_norm:
            told.append(square_norm(updates, first))
        if self.ratios:
            told += [energy for device in placed.devices for energy in tf.unstack(placed.ladder.energies(device))]
        with tf.device(first):
            return tf.stack([tf.cast(each, tf.float64) for each in [*told, *more]])

    def read(
        self, decision: Decision, numbers: Sequence[float], weights: Sequence[float], norms_weigh: bool, **more: Any
    ) -> tuple[StepReport, list[float]]:
        """The report that the told `numbers` make, with what `more` is known of the step; and the numbers left over.

        Each loss counted `weights` times, and where `norms_weigh` its gradient too. What counted 0 times says nothing.
        """
        left = iter(numbers)
        loss = next(left)
        losses = _unweighed(list(islice(left, self.replicas)), weights)
        norms = _unweighed(
            list(islice(left, self.replicas if self.norms else 0)),
            [each**2 if norms_weigh else float(each > 0) for each in weights],
        )
        mean_norm = next(left) if self.mean_norm else None
        energies = [tuple(islice(left, self.ratios)) for _ in range(self.replicas if self.ratios else 0)]
        report = StepReport(
            decision,
            loss,
            losses=losses,
            square_norms=norms,
            mean_square_norm=mean_norm,
            energies=tuple(energies),
            **more,
        )
        return report, list(left)


def _unweighed(numbers: Sequence[float], weights: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(number / weight if weight > 0 else None for number, weight in zip(numbers, weights, strict=False))
