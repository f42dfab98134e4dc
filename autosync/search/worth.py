"""What a decision is worth: the winner without it, against the winner, paired by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from autosync.search.counterfactuals import Counterfactual
from autosync.search.remeasure import speedup, speedup_interval
from autosync.spec import RuntimeRecord, Strategy

__all__ = ["Worth", "worth_of"]


@final
@dataclass(frozen=True)
class Worth:
    """`ratio` is the step time without the decision over the winner's, with its 95 % `interval`; over 1, it pays.

    Both are None when no round has both, and `note` says why; it may also state a reservation.
    """

    counterfactual: Counterfactual
    ratio: float | None
    interval: tuple[float, float] | None
    rounds: int
    note: str = ""


def worth_of(
    counterfactual: Counterfactual,
    winner: Strategy,
    rounds: Sequence[Sequence[RuntimeRecord]],
    generator: np.random.Generator,
) -> Worth:
    """The worth by the rounds in which both took a turn; see `autosync.search.remeasure` for the interval."""
    mine, others = _steps(rounds, winner), _steps(rounds, counterfactual.strategy)
    shared = sorted(set(mine) & set(others))
    if not shared:
        failed = [
            each.reason
            for records in rounds
            for each in records
            if each.reason and each.strategy.digest == counterfactual.strategy.digest
        ]
        return Worth(counterfactual, None, None, 0, failed[-1] if failed else "There was no time for it.")
    slow, fast = [others[turn] for turn in shared], [mine[turn] for turn in shared]
    note = "One round only: the interval knows the noise between steps, not between trials." if len(shared) == 1 else ""
    interval = speedup_interval(slow, fast, generator)
    return Worth(counterfactual, speedup(slow, fast), interval, len(shared), note)


def _steps(rounds: Sequence[Sequence[RuntimeRecord]], strategy: Strategy) -> dict[int, tuple[float, ...]]:
    """Step seconds of the strategy by round, for the rounds in which it came to its end."""
    return {
        turn: record.step_seconds
        for turn, records in enumerate(rounds)
        for record in records
        if record.outcome == "ok" and record.strategy.digest == strategy.digest
    }
