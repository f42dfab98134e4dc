"""The threshold at which a trial is stopped early: the best median step so far, and words for it."""

import statistics
from collections.abc import Sequence

from autosync.spec import RuntimeRecord
from autosync.stats.accuracy import strategy_medians


def best_now(earlier: Sequence[RuntimeRecord], records: Sequence[RuntimeRecord]) -> float | None:
    """The least median step seconds of a strategy at the machine's present speed; None if no strategy was timed.

    `earlier` are records of another process, when the machine may have been faster or slower. They count once a
    strategy has been timed in both processes, scaled by the ratio of its times.
    """
    before, now = strategy_medians(earlier), strategy_medians(records)
    if not now:
        return None
    drifts = [now[name] / before[name] for name in now if name in before]
    known = [*now.values(), *(seconds * statistics.median(drifts) for seconds in before.values() if drifts)]
    return min(known)


def best_when(earlier: Sequence[RuntimeRecord], records: Sequence[RuntimeRecord]) -> str:
    """Words for the trials that `best_now` compares, to follow "the best".

    An earlier process may have timed a faster strategy that does not count yet, or one that takes longer by now.
    """
    before, now = strategy_medians(earlier), strategy_medians(records)
    if not before:
        return "so far"
    return "so far at the machine's present speed" if before.keys() & now.keys() else "since the search was resumed"
