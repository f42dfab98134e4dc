"""Ends a search that has trials left, once another trial costs more time than it is expected to save."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from autosync.search.protocol import Foresight, Searcher
from autosync.spec import RuntimeRecord
from autosync.stats.accuracy import strategy_medians
from autosync.tune.options import TRAINING_STEPS
from autosync.words.quantities import count_of

PATIENCE = 50
"""Default for the number of trials without a better strategy after which a search may end, if its searcher predicts
gains."""

BETTER = 0.01
"""The share of the step time that a strategy must save to count as better."""

LATEST = 20
"""The number of latest trials whose durations predict the next trial's."""


@final
@dataclass(frozen=True)
class Patience:
    """The conditions under which a search ends early: `trials` in a row without a better strategy, and too little to
    gain.

    After those trials, a search ends once the gain that its searcher expects, over `training_steps`, is less than the
    seconds of a trial. A search whose searcher does not predict gains ends after them only if `trials` is given.
    """

    trials: int | None = None
    training_steps: int = TRAINING_STEPS

    def why_end(self, records: Sequence[RuntimeRecord], searcher: Searcher) -> str | None:
        """One sentence on why the search ends; None while another trial is worth its time."""
        waited = trials_since_better(records)
        if waited < (PATIENCE if self.trials is None else self.trials):
            return None
        found_nothing = f"The last {count_of(waited, 'trial')} found no strategy that is {BETTER:.0%} faster"
        if not isinstance(searcher, Foresight):
            return None if self.trials is None else f"{found_nothing}."
        gain, best = searcher.expected_gain(), min(strategy_medians(records).values(), default=None)
        if gain is None or best is None:
            return None
        costs = statistics.median(record.total_seconds for record in records[-LATEST:])
        saves = gain * best * self.training_steps
        if saves >= costs:
            return None
        return (
            f"{found_nothing}. Another trial takes {costs:.2g} s and is expected to save {saves:.2g} s "
            f"in {count_of(self.training_steps, 'training step')}."
        )


def trials_since_better(records: Sequence[RuntimeRecord]) -> int:
    """Trials since a strategy about as fast as the best was first timed.

    A strategy's time is the median over all its timings, so a lucky first timing counts until the strategy is timed
    again.
    """
    medians = strategy_medians(records)
    if not medians:
        return len(records)
    about_best = min(medians.values()) * (1 + BETTER)
    as_fast = {name for name, seconds in medians.items() if seconds <= about_best}
    first = next(number for number, record in enumerate(records) if record.strategy.digest in as_fast)
    return len(records) - 1 - first
