"""A run's trials as rows for programs: CSV and JSON."""

import csv
import io
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from autosync.spec import RuntimeRecord, median_interval
from autosync.spec.quoting import printable

COLUMNS = {
    "sequence": "number of the trial in its run, from 1, in order of their start",
    "label": "where the strategy comes from, or what was reverted",
    "purpose": "baseline, search or remeasure",
    "digest": "identity of the strategy",
    "outcome": "ok, stopped, failed, timed_out or lost",
    "median_seconds": "median step seconds; empty when no step was timed",
    "interval_low_seconds": "lower end of the median's 95 % interval, within this trial",
    "interval_high_seconds": "its upper end",
    "predicted_seconds": "step seconds as the simulator said before the trial; empty when it said nothing",
    "reason": "why the outcome is not ok",
    "started_at": "when the trial began, in UTC",
}
"""The columns of `trials.csv` and their meaning; a row is a trial."""

OF_PACED = {
    "time": "what its seconds are: real, paced (passes were waited for) or virtual",
    "numbers": "what its gradients are: real, held or recorded",
}
"""Additional columns of a run whose trials are not all real."""


def trial_rows(records: Sequence[RuntimeRecord]) -> list[dict[str, Any]]:
    """One row per record, with the columns of `COLUMNS`, and those of `OF_PACED` if any record is not real."""
    ordered = sorted(records, key=lambda record: record.started_at)
    more = OF_PACED if any(record.time != "real" for record in records) else {}
    return [
        dict(zip(COLUMNS, _values(number, record), strict=True)) | {name: getattr(record, name) for name in more}
        for number, record in enumerate(ordered, 1)
    ]


def _values(number: int, record: RuntimeRecord) -> tuple[Any, ...]:
    low, high = median_interval(record.step_seconds) if record.timed else (None, None)
    return (
        number,
        record.label,
        record.purpose,
        record.strategy.digest,
        record.outcome,
        record.median_seconds,
        low,
        high,
        record.predicted_seconds,
        record.reason,
        datetime.fromtimestamp(record.started_at, timezone.utc).isoformat(timespec="milliseconds"),
    )


def csv_of(records: Sequence[RuntimeRecord]) -> str:
    text, rows = io.StringIO(), trial_rows(records)
    writer = csv.DictWriter(text, rows[0] if rows else COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets run a text that begins with one of these characters as a formula."""


def _cell(value: Any) -> Any:
    """A number unchanged; a text made printable, and prefixed with an apostrophe if a spreadsheet would run it."""
    if not isinstance(value, str):
        return value
    return printable(f"'{value}" if value.lstrip(" ").startswith(FORMULA) else value)


def json_of(records: Sequence[RuntimeRecord]) -> str:
    return json.dumps(trial_rows(records), indent=1) + "\n"
