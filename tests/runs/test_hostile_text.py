"""Names and figures of records that calendars, spreadsheets and pictures cannot take unchanged."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from autosync.dataset.schema import SCHEMA, VERSION_KEY
from autosync.errors import DatasetError, SpecError
from autosync.report import write_report
from autosync.runs import csv_of, read_run
from autosync.spec import RuntimeRecord
from autosync.spec.quoting import printable
from tests.race.runs import new_race, run_of
from tests.report.pages import seen
from tests.runs.examples import Story, finals_of, search_records, write_run

NAME = "a\x1b[31m\x07b\u202e\x00\ud800c\x85"


@pytest.mark.parametrize("start", [1e18, -1.0, float("inf"), float("nan"), 253_402_300_800.0])
def test_a_start_beyond_any_date_is_refused(start: float) -> None:
    with pytest.raises(SpecError, match="A record's start is finite, in seconds from 1970 to the year 9999, not"):
        replace(search_records()[0], started_at=start)
    race = new_race()
    planned = race.next()
    assert planned is not None
    with pytest.raises(SpecError, match="A record's start is finite"):
        replace(run_of(planned, 10, 0.1), started_at=start)


@pytest.mark.parametrize("version", [b"9" * 5000, b"-1", "²".encode(), b"\xff", b"1.5", b""])
def test_a_version_that_is_no_number_is_refused(version: bytes) -> None:
    with pytest.raises(DatasetError, match=r"f\.parquet is Parquet, but not of autosync's records"):
        SCHEMA.version_of(pa.schema([], metadata={VERSION_KEY: version}), "f.parquet")


@pytest.mark.parametrize("label", ["=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", "\t=1", "\r=1", " =1"])
def test_a_spreadsheet_runs_no_cell(label: str) -> None:
    record = replace(search_records()[0], label=label)
    (row,) = csv.DictReader(io.StringIO(csv_of([record])))
    assert row["label"].startswith("'")
    assert row["label"].isprintable() or "\t" in label
    assert float(row["median_seconds"]) == record.median_seconds


def named(record: RuntimeRecord, name: str) -> RuntimeRecord:
    return replace(record, label=f"{name}{record.label}")


def test_a_page_and_its_pictures_hold_no_control_characters(tmp_path: Path) -> None:
    name = NAME.replace("\ud800", "")  # Parquet cannot hold half characters
    trials = tuple(named(record, name) for record in search_records())
    write_run(tmp_path / "run", Story(trials, finals_of(trials)))
    page = write_report(read_run(tmp_path / "run"))
    text = page.read_text(encoding="utf-8")
    assert seen(page).faults == []
    assert "a\\x1b[31m\\x07b\\u202e" in text
    assert printable(text) == text
