"""One search of a recorded cell, for `autosync replay`: without a cluster, and with a clock that jumps."""

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from autosync.search.pool_space import PoolSpace
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, TimingProtocol
from autosync.spec.address import Place
from autosync.tune.budget import seconds_of_trials
from autosync.tune.campaign import Campaign, SearchLimits
from autosync.tune.composing import make_searcher
from autosync.tune.options import TuneOptions
from autosync.tune.patience import Patience
from autosync.tune.recorded.cells import RecordedCell, read_cells
from autosync.tune.recorded.table import RUN, RecordedTable
from autosync.words.quantities import count_of, duration

UNTRAINED_NETWORK = "linear"
"""The *auto* simulator without the shipped checkpoint, which may have been fitted to these very records."""

CLOSE = 1.05
"""The multiple of the cell's best step time up to which a step time counts as close to it."""


def search_recorded(options: TuneOptions, records: Place, say: Callable[[str], None]) -> int:
    """Search the cell `options.model` of `records`, print the outcome, and return the exit status.

    Raises `DatasetError` when there is no such cell.
    """
    (cell,), _ = read_cells(records, [options.model])
    if options.simulator == "auto" and options.warm_start is None:
        options = options.model_copy(update={"simulator": UNTRAINED_NETWORK})
    table = RecordedTable(cell, options.seed)
    # Searchers are typed for SearchSpace alone; a pool has all members of that class that they use.
    pool = cast(SearchSpace, PoolSpace(cell.space, tuple(cell.trials), table.is_open))
    searcher = make_searcher(options, pool, list(cell.baselines))
    say(f"{cell.name}: {len(cell.trials)} strategies were timed, {len(cell.baselines)} of them baselines.")

    def out_of_time(more: int) -> bool:
        gone = table.clock_seconds + seconds_of_trials(more, campaign.records)
        return gone >= (options.time_budget_seconds or math.inf)

    limits = SearchLimits(options.trials, out_of_time, Patience(options.patience, options.training_steps))
    watchers = (_reporter(table, say),)
    campaign = Campaign(searcher, _Nowhere(), TimingProtocol(), RUN, options.seed, limits, watchers)
    campaign.run(table)
    if out_of_time(0):
        say(f"The time budget is used up by the recorded durations of {count_of(len(campaign.records), 'trial')}.")
    elif len(campaign.records) < options.trials:
        say(campaign.stop_reason or "")
    say(_summary(cell, campaign.records))
    return 0


class _Nowhere:
    """Stores nothing, because the trials are already recorded."""

    def append(self, record: RuntimeRecord) -> None:
        """Do nothing: the record is known."""

    def save_state(self, state: dict[str, Any]) -> None:
        """Do nothing: the same command gives the same search again."""


def _reporter(table: RecordedTable, say: Callable[[str], None]) -> Callable[[RuntimeRecord], None]:
    """A watcher that prints a line for each trial that is faster than all trials before it."""
    trials, least = 0, math.inf

    def report(record: RuntimeRecord) -> None:
        nonlocal trials, least
        trials += 1
        if record.median_seconds is not None and record.median_seconds < least:
            least = record.median_seconds
            say(f"  trial {trials:3}, {duration(table.clock_seconds):>12}: {1e3 * least:.1f} ms a step, {record.label}")

    return report


def _summary(cell: RecordedCell, records: Sequence[RuntimeRecord]) -> str:
    """A sentence on the search's result, by the true seconds of each strategy, which the search did not know."""
    timed = [cell.seconds[cell.space.canonical(record.strategy)] for record in records]
    close = next((number for number, seconds in enumerate(timed, 1) if seconds <= CLOSE * cell.best_seconds), 0)
    baseline, _ = cell.best_baseline
    return (
        f"By all trials of each strategy: the best timed strategy takes {1e3 * min(timed):.1f} ms a step, the best "
        f"baseline, "
        f"{baseline}, {1e3 * cell.baseline_seconds:.1f} ms, the best of the cell {1e3 * cell.best_seconds:.1f} ms; "
        + (f"the search came within 5 % of that with trial {close}." if close else "the search never came within 5 %.")
    )
