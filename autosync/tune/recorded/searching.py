"""One search of a recorded cell, as `autosync tune --replay` makes it: no cluster, a clock that jumps."""

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, TimingProtocol
from autosync.tune.budget import seconds_of_trials
from autosync.tune.campaign import Campaign, Limits
from autosync.tune.composing import make_searcher
from autosync.tune.options import OptionsError, TuneOptions
from autosync.tune.patience import Patience
from autosync.tune.recorded.cells import RecordedCell, read_cells
from autosync.tune.recorded.pool import RUN, PoolSpace, RecordedTable
from autosync.words.quantities import counted, duration

NETWORK_UNTAUGHT = "linear"
"""The *auto* simulator without the checkpoint that comes with the program, which may know these very records."""

CLOSE = 1.05
"""Times the best step of the cell up to which a step counts as close to it."""


def search_recorded(options: TuneOptions, say: Callable[[str], None]) -> int:
    """Search the cell `options.model` of the records in `options.replay`, say what came of it; the exit status.

    Raises `DatasetError` when there is no such cell.
    """
    if options.replay is None:
        raise OptionsError("A search of recorded trials needs --replay, the folder of the records.")
    (cell,), _ = read_cells(options.replay, [options.model])
    if options.simulator == "auto" and options.warm_start is None:
        options = options.model_copy(update={"simulator": NETWORK_UNTAUGHT})
    table = RecordedTable(cell, options.seed)
    # Searchers ask for the one class SearchSpace; a pool has all of it that they use.
    pool = cast(SearchSpace, PoolSpace(cell.space, tuple(cell.trials), table.is_open))
    searcher = make_searcher(options, pool, list(cell.baselines))
    say(f"{cell.name}: {len(cell.trials)} strategies were timed, {len(cell.baselines)} of them baselines.")

    def out_of_time(more: int) -> bool:
        gone = table.clock_seconds + seconds_of_trials(more, campaign.records)
        return gone >= (options.time_budget_seconds or math.inf)

    limits = Limits(options.trials, out_of_time, Patience(options.patience, options.training_steps))
    watchers = (_reporter(table, say),)
    campaign = Campaign(searcher, _Nowhere(), TimingProtocol(), RUN, options.seed, limits, watchers)
    campaign.run(table)
    if out_of_time(0):
        say(f"The time is used up, by the recorded lengths of {counted(len(campaign.records), 'trial')}.")
    elif len(campaign.records) < options.trials:
        say(campaign.stopped_because or "")
    say(_summary(cell, campaign.records))
    return 0


class _Nowhere:
    """Keeps nothing: what is searched was recorded before."""

    def append(self, record: RuntimeRecord) -> None:
        """Do nothing: the record is known."""

    def save_state(self, state: dict[str, Any]) -> None:
        """Do nothing: the same command says the same again."""


def _reporter(table: RecordedTable, say: Callable[[str], None]) -> Callable[[RuntimeRecord], None]:
    """A watcher that says a line for each trial that is faster than all before it."""
    trials, least = 0, math.inf

    def report(record: RuntimeRecord) -> None:
        nonlocal trials, least
        trials += 1
        if record.median_seconds is not None and record.median_seconds < least:
            least = record.median_seconds
            say(f"  trial {trials:3}, {duration(table.clock_seconds):>12}: {1e3 * least:.1f} ms a step, {record.label}")

    return report


def _summary(cell: RecordedCell, records: Sequence[RuntimeRecord]) -> str:
    """What the search found, by the true seconds of each strategy, which it was not told."""
    met = [cell.seconds[cell.space.canonical(each.strategy)] for each in records]
    close = next((number for number, each in enumerate(met, 1) if each <= CLOSE * cell.best_seconds), 0)
    baseline, _ = cell.best_baseline
    return (
        f"By all trials of each strategy: the best met takes {1e3 * min(met):.1f} ms a step, the best baseline, "
        f"{baseline}, {1e3 * cell.baseline_seconds:.1f} ms, the best of the cell {1e3 * cell.best_seconds:.1f} ms; "
        + (f"the search came within 5 % of that with trial {close}." if close else "the search never came within 5 %.")
    )
