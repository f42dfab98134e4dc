"""Computes the figures of the data card from the records: counts, noise, failures, machine, versions."""

import json
import math
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from autosync.dataset import RecordStore
from autosync.errors import DatasetError
from autosync.files import read_whole, write_atomically
from autosync.spec import RuntimeRecord, canonical_json
from autosync.stats.cells import cell_of
from autosync.stats.noise import MEDIAN_OVER_MEAN_ERROR
from autosync.stats.tables import markdown_rows
from studies.collect.folder import Folder

BEGIN, END = "<!-- figures: written by python -m studies collect --card -->", "<!-- end of figures -->"

Row = Mapping[str, Any]

FIELDS = (
    "run",
    "outcome",
    "reason",
    "purpose",
    "label",
    "started_at",
    "setup_seconds",
    "total_seconds",
    "step_seconds",
    "median_seconds",
    "load_average",
    "host",
)
"""The fields of a record that the card reads unchanged."""

CELL_HEADER = (
    "model @ cluster",
    "records",
    "strategies",
    "timed twice",
    "stopped",
    "failed",
    "lost",
    "ms a step",
    "noise",
)


def write_card(folder: Folder) -> None:
    """Put the figures of the folder's records between the marks in its README.md.

    Raises `DatasetError`, and `WriteError`.
    """
    try:
        text = read_whole(folder.card).decode()
    except OSError as error:
        raise DatasetError(f"The data card {folder.card} cannot be read: {error.strerror}; write one first.") from None
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise DatasetError(f"The data card {folder.card} must hold the lines {BEGIN!r} and {END!r}; add them.")
    figures = "\n".join(card_lines([_row(record) for record in RecordStore(folder.records).read()]))
    write_atomically(folder.card, f"{before}{BEGIN}\n{figures}\n{END}{after}")


def card_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield lines of Markdown: an overview of all `rows`, a table of cells, the noise, and the failures with
    reasons."""
    if not rows:
        yield "There are no records yet."
        return
    yield from _overview(rows)
    yield ""
    yield from markdown_rows(CELL_HEADER, _cells(rows))
    yield ""
    yield (
        "*ms a step*: fastest, median and slowest strategy by its median step. *Noise*: median and 90th percentile of "
        "the difference between the two timings of a strategy (absolute log-ratio of the medians, in per cent)."
    )
    yield ""
    yield from _noise(rows)
    yield ""
    yield from _failures(rows)


def _row(record: RuntimeRecord) -> Row:
    return {name: getattr(record, name) for name in FIELDS} | {
        "model_name": record.model.name,
        "cluster_digest": record.cluster.digest,
        "strategy_digest": record.strategy.digest,
        "versions": canonical_json(dict(record.versions)),
    }


def _overview(rows: Sequence[Row]) -> Iterator[str]:
    first, last = min(row["started_at"] for row in rows), max(row["started_at"] for row in rows)
    seconds = sum(row["total_seconds"] for row in rows)
    steps = sum(len(row["step_seconds"]) for row in rows)
    yield (
        f"{len(rows)} records of {len({(row['run'], row['strategy_digest']) for row in rows})} strategies in "
        f"{len({row['run'] for row in rows})} cells; {steps} timed steps; {seconds / 3600:.1f} hours of trials, "
        f"from {_day(first)} to {_day(last)} (UTC)."
    )
    yield ""
    for host, count in Counter(row["host"] for row in rows).most_common():
        yield f"- Machine: {host} ({count} records)"
    for versions, count in Counter(row["versions"] for row in rows).most_common():
        named = ", ".join(f"{name} {version}" for name, version in json.loads(versions).items())
        yield f"- Versions: {named} ({count} records)"
    loads = sorted(row["load_average"] for row in rows if row["load_average"] is not None)
    if loads:
        yield (
            f"- Load average before a trial: median {statistics.median(loads):.1f}, a tenth of them over "
            f"{_quantile(loads, 0.9):.1f}"
        )
    setups = [row["setup_seconds"] for row in rows if row["outcome"] == "ok"]
    if setups:
        yield (
            f"- A trial takes {statistics.median(row['total_seconds'] for row in rows):.1f} s (median), "
            f"{statistics.median(setups):.1f} s of them to build the step"
        )


def _cells(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_run[row["run"]].append(row)
    for run, records in sorted(by_run.items()):
        cell = cell_of(run)
        outcomes = Counter(row["outcome"] for row in records)
        medians = sorted(row["median_seconds"] for row in records if row["median_seconds"] is not None)
        repeats = _repeat_ratios(records)
        yield (
            f"{cell.model} @ {cell.cluster}" if cell else run,
            str(len(records)),
            str(len({row["strategy_digest"] for row in records})),
            str(len(repeats)),
            str(outcomes["stopped"]),
            str(outcomes["failed"] + outcomes["timed_out"]),
            str(outcomes["lost"]),
            " / ".join(f"{seconds * 1e3:.0f}" for seconds in (medians[0], statistics.median(medians), medians[-1]))
            if medians
            else "-",
            _spread(repeats),
        )


def _noise(rows: Sequence[Row]) -> Iterator[str]:
    """Yield lines on the noise between trials of one strategy, and between the steps of one trial."""
    ratios = _repeat_ratios(rows)
    if not ratios:
        yield "No strategy was timed twice yet, so the noise between trials is unknown."
        return
    errors = [
        MEDIAN_OVER_MEAN_ERROR * statistics.stdev(steps) / math.sqrt(len(steps)) / row["median_seconds"]
        for row in rows
        if row["outcome"] == "ok" and len(steps := row["step_seconds"]) > 1
    ]
    yield (
        f"Noise of all cells: {len(ratios)} strategies were timed twice, at other times; half of them differ by less "
        f"than {statistics.median(ratios):.1%}, a tenth by more than {_quantile(ratios, 0.9):.1%}."
    )
    if errors:
        yield (
            f"By the steps within a trial alone, its median has a standard error of {statistics.median(errors):.1%} "
            "(median over trials); differences between repeats beyond that are drift of the machine."
        )


def _failures(rows: Sequence[Row]) -> Iterator[str]:
    reasons = Counter(
        (row["outcome"], " ".join(row["reason"].split())[:120])
        for row in rows
        if row["outcome"] in ("failed", "timed_out", "lost")
    )
    if not reasons:
        yield "No trial failed, timed out or was lost."
        return
    yield "Trials without a step time:"
    yield ""
    for (outcome, reason), count in reasons.most_common():
        yield f"- {count} x {outcome}: {reason}"


def _repeat_ratios(rows: Sequence[Row]) -> list[float]:
    """Return the absolute log-ratios of medians between successive trials of a strategy, sorted."""
    medians: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row["outcome"] == "ok":
            medians[row["run"], row["strategy_digest"]].append((row["started_at"], row["median_seconds"]))
    ratios = []
    for times in medians.values():
        ordered = [median for _, median in sorted(times)]
        ratios += [abs(math.log(later / earlier)) for earlier, later in pairwise(ordered)]
    return sorted(ratios)


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.1%} / {_quantile(ratios, 0.9):.1%}" if ratios else "-"


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest of the sorted values that is at least as large as a share `share` of them."""
    return ordered[min(math.ceil(share * len(ordered)) - 1, len(ordered) - 1)]


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
