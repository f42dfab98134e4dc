"""The events of a search for programs, one JSON object each; docs/command-line.md has their fields.

The kinds are `search` (a search begins), `trial` (a trial of the search has ended), `turn` (a turn of the finals, of a
grid or of a counterfactual has ended) and `result` (the search has a verdict).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, final

from autosync.runs.shown import files_of
from autosync.runs.tables import FittedTable
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord
from autosync.terminal import Report, Terminal
from autosync.tune.job import Job
from autosync.tune.observer import Observer, TrialWatcher
from autosync.tune.progress import Standing
from autosync.tune.result import SearchResult, result_json
from autosync.tune.terminal import TerminalObserver


def observer_of(quiet: bool, verbose: bool, write: Report | None) -> Observer:
    """The observer of a search at the command line; `write` takes events for programs, None for people only."""
    people = TerminalObserver(Terminal(), quiet, verbose)
    return people if write is None else JsonObserver(people, write)


def report_search(job: Job, space: SearchSpace, trials: int, earlier: int) -> None:
    """Report that a search of up to `trials` trials begins, `earlier` of them by an earlier process of the run."""
    cluster = job.backend.cluster
    details = {
        "run": str(job.directory.path),
        "model": job.backend.model.name,
        "framework": job.options.framework_or_default,
        "searcher": job.options.searcher,
        "space": {"name": space.name, "log10_size": space.log10_size},
        "nodes": [node.name for node in cluster.nodes],
        "replicas": list(space.replicas),
        "trials": trials,
        "earlier_trials": earlier,
        "time_budget_seconds": job.options.time_budget_seconds,
        "time": cluster.time,
    }
    job.observer.event("search", details)


def report_turn(job: Job, record: RuntimeRecord) -> None:
    """Store the record of a turn after the search, and report it."""
    job.append(record)
    job.observer.event("turn", record_details(record))


def report_result(job: Job, result: SearchResult) -> None:
    """Report the verdict, as in result.json, and the files of the run."""
    files = {name: str(file) for name, file in files_of(job.directory.path).items()}
    job.observer.event("result", {**result_json(result, job.seconds_gone), "files": files})


def record_details(record: RuntimeRecord) -> dict[str, Any]:
    """The fields of a trial or a turn that a program needs while a search runs."""
    return {
        "strategy_digest": record.strategy.digest,
        "label": record.label,
        "purpose": record.purpose,
        "outcome": record.outcome,
        "reason": record.reason,
        "median_seconds": record.median_seconds,
        "steps": len(record.step_seconds),
        "predicted_seconds": record.predicted_seconds,
        "total_seconds": record.total_seconds,
        "time": record.time,
    }


@final
class JsonObserver:
    """An `Observer` that writes every event as a JSON object, and passes messages on to `people`."""

    def __init__(self, people: Observer, write: Report) -> None:
        self._people = people
        self._write = write

    def say(self, line: str = "", *, is_verdict: bool = False) -> None:
        self._people.say(line, is_verdict=is_verdict)

    def show(self, table: FittedTable) -> None:
        self._people.show(table)

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        self._write({"event": kind, **details})
        self._people.event(kind, details)

    def end(self) -> None:
        self._people.end()

    def trials(self, count: int, budget_seconds: float | None, now: Callable[[], float]) -> TrialWatcher:
        return _TrialEvents(self._people.trials(count, budget_seconds, now), count, self)


@final
class _TrialEvents:
    """A `TrialWatcher` that reports each record as an event."""

    def __init__(self, people: TrialWatcher, count: int, observer: JsonObserver) -> None:
        self._people = people
        self._count = count
        self._observer = observer
        self._records: list[RuntimeRecord] = []

    def start_from(self, records: list[RuntimeRecord]) -> None:
        self._records = list(records)
        self._people.start_from(records)

    def __call__(self, record: RuntimeRecord) -> None:
        is_lost = record.outcome == "lost"  # lost with its node, so it runs again
        if not is_lost:
            self._records.append(record)
        standing = Standing.of(self._records)
        details = {
            "number": None if is_lost else len(self._records),
            "of": self._count,
            **record_details(record),
            "best_seconds": standing.best_seconds,
            "best_strategy_digest": standing.best.strategy.digest if standing.best else None,
            "best_baseline_seconds": standing.best_baseline_seconds,
        }
        self._observer.event("trial", details)
        self._people(record)

    def __enter__(self) -> TrialWatcher:
        self._people.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self._people.__exit__(kind, error, traceback)
