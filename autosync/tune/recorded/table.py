"""A recorded table that stands for a cluster: a trial is one that was run, and the clock goes on as it did then."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import final

from autosync.search import Proposal
from autosync.spec import RuntimeRecord, Strategy
from autosync.tune.recorded.cells import Cell
from trials.request import TrialRequest

__all__ = ["RUN", "RecordedTable"]

RUN = "replay"
"""The name of the run that its records belong to."""


@final
class RecordedTable:
    """Turns proposals into records. `clock_seconds` is when the last trial ended, had trials been run one by one.

    Of a strategy that was timed several times, `seed` draws which trial comes first, so that a search meets the noise
    that there is; asked for again, the others follow in turn.
    """

    def __init__(self, cell: Cell, seed: int) -> None:
        self._cell = cell
        self._seed = seed
        self._timed: dict[str, int] = {}
        self.clock_seconds = 0.0

    def __call__(self, proposal: Proposal | TrialRequest) -> RuntimeRecord:
        """The record of `proposal`, as of a trial that begins now. Raises `KeyError` for one that was never timed."""
        strategy = self._cell.space.canonical(proposal.strategy)
        trials = list(self._cell.trials[strategy])
        random.Random(f"{self._seed}/{strategy.digest}").shuffle(trials)
        times = self._timed.get(strategy.digest, 0)
        self._timed[strategy.digest] = times + 1
        found = trials[times % len(trials)]
        begun, self.clock_seconds = self.clock_seconds, self.clock_seconds + found.total_seconds
        return replace(
            found,
            strategy=proposal.strategy,
            purpose=proposal.purpose,
            label=proposal.label,
            predicted_seconds=proposal.predicted_seconds,
            run=RUN,
            seed=self._seed,
            started_at=begun,
        )

    def is_open(self, strategy: Strategy) -> bool:
        """Whether `strategy`, a canonical one, is yet to be timed."""
        return strategy.digest not in self._timed
