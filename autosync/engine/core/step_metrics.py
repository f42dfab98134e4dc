"""The order of the numbers that a step returns, and the report built from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autosync.spec import Decision, StepReport


@dataclass(frozen=True)
class StepMetrics:
    """The numbers that a step returns, in this order: the mean loss, and each replica's loss.

    With `norms`, the squared norm of each replica's gradient follows; with `mean_norm`, the squared norm of the mean
    gradient. If `ratios` is not 0, the shares of its energy that each replica would have kept at each of a fidelity's
    `ratios` ratios follow.
    """

    replicas: int
    norms: bool = False
    mean_norm: bool = False
    ratios: int = 0

    def read(
        self, decision: Decision, numbers: Sequence[float], weights: Sequence[float], norms_weigh: bool, **more: Any
    ) -> tuple[StepReport, list[float]]:
        """Build the report from `numbers` and the fields `more`; return the report and the numbers left over.

        The step multiplied each loss by its weight and, if `norms_weigh`, each gradient too; both are divided out here.
        Entries of replicas with weight 0 are reported as None.
        """
        left = iter(numbers)
        loss = next(left)
        losses = _divide(list(islice(left, self.replicas)), weights)
        norms = _divide(
            list(islice(left, self.replicas if self.norms else 0)),
            [weight**2 if norms_weigh else float(weight > 0) for weight in weights],
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


def _divide(numbers: Sequence[float], weights: Sequence[float]) -> tuple[float | None, ...]:
    """Divide `numbers` by `weights`; None where the weight is 0."""
    return tuple(number / weight if weight > 0 else None for number, weight in zip(numbers, weights, strict=False))
