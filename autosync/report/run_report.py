"""The report of one run."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from autosync.report.findings import Findings
from autosync.report.page import Page, write_page
from autosync.report.sections import SECTIONS, headline_of
from autosync.runs import Run

__all__ = ["write_report"]


def write_report(run: Run, out: Path | None = None) -> Path:
    """Write the report of `run` to `out`, by default `report.html` in its directory with PNG files in `report/`.

    Whatever the run lacks is said in a sentence. Raises `AutosyncError` when a file cannot be written.
    """
    findings = Findings(run)
    page = Page(
        headline_of(findings),
        [section(findings) for section in SECTIONS],
        _kicker(run),
        f"Made by autosync from {run.directory}; the page loads nothing from elsewhere.",
    )
    return write_page(page, out or run.directory / "report.html", run.directory / "report" if out is None else None)


def _kicker(run: Run) -> str:
    if not run.records:
        return f"Run {run.title}"
    began = datetime.fromtimestamp(run.records[0].started_at, timezone.utc)
    return f"Run {run.title}, {began:%Y-%m-%d}"
