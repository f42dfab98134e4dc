"""The search loop over any callable that times a strategy."""

from __future__ import annotations

from collections.abc import Callable

from autosync.search.protocol import Proposal, Searcher, ask_within
from autosync.spec import RuntimeRecord

__all__ = ["run_search"]


def run_search(
    searcher: Searcher,
    evaluate: Callable[[Proposal], RuntimeRecord],
    trials: int,
    on_record: Callable[[RuntimeRecord], None] | None = None,
) -> list[RuntimeRecord]:
    """Time up to `trials` proposals one after the other, and return their records in order.

    Fewer are timed when the space is used up; else all seeds are among them, if there are trials enough. `on_record`
    gets each record before the searcher does, so that what it stores is never behind what the searcher knows. What was
    pending when a search stopped comes first.
    """
    records: list[RuntimeRecord] = []
    unfinished = searcher.pending()
    while len(records) < trials:
        proposals = unfinished[:1] or ask_within(searcher, trials - len(records))
        del unfinished[:1]
        if not proposals:
            break
        record = evaluate(proposals[0])
        if on_record is not None:
            on_record(record)
        searcher.tell(record)
        records.append(record)
    return records
