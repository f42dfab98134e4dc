"""The yardstick of a trial: the best median step so far, beyond which it is stopped early, and words for it."""

import statistics
from collections.abc import Sequence

from autosync.spec import RuntimeRecord
from autosync.stats.accuracy import strategy_medians


def best_now(earlier: Sequence[RuntimeRecord], records: Sequence[RuntimeRecord]) -> float | None:
    """The least median step seconds that a strategy takes as the machine is now; None when none is known.

    `earlier` are records of another process, at a time when the machine may have been faster or slower: they count once
    a strategy has been timed in both, by how much its times differ.
    """
    before, now = strategy_medians(earlier), strategy_medians(records)
    if not now:
        return None
    drifts = [now[name] / before[name] for name in now if name in before]
    known = [*now.values(), *(seconds * statistics.median(drifts) for seconds in before.values() if drifts)]
    return min(known)


def best_when(earlier: Sequence[RuntimeRecord], records: Sequence[RuntimeRecord]) -> str:
    """Words for the trials that `best_now` is the best of, to be said after "the best".

    An earlier process may have timed a faster strategy than any that is counted yet, or one that takes longer by now.
    """
    before, now = strategy_medians(earlier), strategy_medians(records)
    if not before:
        return "so far"
    return "so far as the machine is now" if before.keys() & now.keys() else "since the search went on"
