"""What a search knows at the start of a round: what was timed, how far the simulator errs on it, and who leads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.search.acquisition import Pool, Residuals
from autosync.search.decisions import DecisionCoder
from autosync.search.ledger import Observation
from autosync.spec import Strategy

__all__ = ["Evidence"]


@final
@dataclass(frozen=True)
class Evidence:
    """Timed strategies, and the log step seconds, float64 (n,), that they are expected to take without noise."""

    observations: Sequence[Observation]
    residuals: Residuals
    expected: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls, observations: Sequence[Observation], coder: DecisionCoder, pool_of: Callable[[list[Strategy]], Pool]
    ) -> Evidence:
        pool = pool_of([each.strategy for each in observations])
        log_seconds = np.log(np.array([each.median_seconds for each in observations]))
        residuals = Residuals(coder, pool, log_seconds, [each.timings for each in observations])
        return cls(observations, residuals, residuals.expected(pool))

    @property
    def best(self) -> float | None:
        """Log step seconds of the leader."""
        return float(self.expected.min()) if len(self.expected) else None

    def leaders(self, count: int) -> list[Observation]:
        """The strategies expected to be fastest, fastest first. A lucky timing alone makes no strategy a leader."""
        return [self.observations[place] for place in np.argsort(self.expected, kind="stable")[:count]]
