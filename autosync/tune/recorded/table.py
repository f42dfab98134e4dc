"""The table that answers proposals with recorded trials."""

import random
from dataclasses import replace
from typing import final

from autosync.search.protocol import Proposal
from autosync.spec import RuntimeRecord, Strategy
from autosync.tune.recorded.cells import RecordedCell
from trials.trial import TrialRequest

RUN = "replay"
"""The run name of the table's records."""


@final
class RecordedTable:
    """Answers proposals with recorded trials. `clock_seconds` is the end of the last trial, if trials had run one by
    one.

    If a strategy was timed several times, `seed` draws the trial to return first, so that a search sees real noise;
    further requests get the other trials in turn.
    """

    def __init__(self, cell: RecordedCell, seed: int) -> None:
        self._cell = cell
        self._seed = seed
        self._timed: dict[str, int] = {}
        self.clock_seconds = 0.0

    def __call__(self, proposal: Proposal | TrialRequest) -> RuntimeRecord:
        """The record of `proposal`, as if its trial began now. Raises `KeyError` if the strategy was never timed."""
        strategy = self._cell.space.canonical(proposal.strategy)
        trials = list(self._cell.trials[strategy])
        random.Random(f"{self._seed}/{strategy.digest}").shuffle(trials)
        times = self._timed.get(strategy.digest, 0)
        self._timed[strategy.digest] = times + 1
        record = trials[times % len(trials)]
        begun, self.clock_seconds = self.clock_seconds, self.clock_seconds + record.total_seconds
        return replace(
            record,
            strategy=proposal.strategy,
            purpose=proposal.purpose,
            label=proposal.label,
            predicted_seconds=proposal.predicted_seconds,
            run=RUN,
            seed=self._seed,
            started_at=begun,
        )

    def is_open(self, strategy: Strategy) -> bool:
        """Whether the canonical `strategy` has not been timed yet."""
        return strategy.digest not in self._timed
