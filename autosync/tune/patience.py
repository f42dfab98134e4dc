"""Ending a whole search that has trials left, when another costs more than it is expected to save."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from autosync.search.protocol import Foresight, Searcher
from autosync.spec import RuntimeRecord
from autosync.stats.accuracy import strategy_medians
from autosync.tune.options import TRAINING_STEPS
from autosync.words.quantities import counted

PATIENCE = 50
"""Trials without a better strategy after which a search that can tell may end, unless asked otherwise."""

BETTER = 0.01
"""The share of a step that a strategy must save to count as better."""

LATEST = 20
"""Number of latest trials whose length says how long the next one takes."""


@final
@dataclass(frozen=True)
class Patience:
    """How many `trials` in a row without a better strategy a search goes on for at least, and what the search is for.

    After those it ends as soon as the gain that its searcher expects, over `training_steps`, is less than the seconds
    of a trial. One whose searcher does not say what it expects ends after them only if `trials` are given.
    """

    trials: int | None = None
    training_steps: int = TRAINING_STEPS

    def why_end(self, records: Sequence[RuntimeRecord], searcher: Searcher) -> str | None:
        """Why the search ends, in one sentence; None while going on is worth it."""
        waited = trials_since_better(records)
        if waited < (PATIENCE if self.trials is None else self.trials):
            return None
        found_nothing = f"The last {counted(waited, 'trial')} found nothing that is {BETTER:.0%} faster"
        if not isinstance(searcher, Foresight):
            return None if self.trials is None else f"{found_nothing}."
        gain, best = searcher.expected_gain(), min(strategy_medians(records).values(), default=None)
        if gain is None or best is None:
            return None
        costs = statistics.median(each.total_seconds for each in records[-LATEST:])
        saves = gain * best * self.training_steps
        if saves >= costs:
            return None
        return (
            f"{found_nothing}; another one takes {costs:.2g} s and is expected to save {saves:.2g} s "
            f"of {counted(self.training_steps, 'training step')}."
        )


def trials_since_better(records: Sequence[RuntimeRecord]) -> int:
    """Trials since a strategy was first timed that is about as fast as the best.

    What strategies take is the median over all their timings, so a lucky first one counts until it is timed again.
    """
    medians = strategy_medians(records)
    if not medians:
        return len(records)
    about_best = min(medians.values()) * (1 + BETTER)
    as_fast = {name for name, seconds in medians.items() if seconds <= about_best}
    first = next(number for number, each in enumerate(records) if each.strategy.digest in as_fast)
    return len(records) - 1 - first
