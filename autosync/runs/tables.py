"""Runs on a terminal: the table of a run's contenders, and the table of several runs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from autosync.runs.contenders import Contender
from autosync.runs.listing import Listed
from autosync.words.quantities import duration, milliseconds
from autosync.words.strategy import marked

__all__ = ["contenders_table", "runs_table"]


def contenders_table(rows: Sequence[Contender], winner: str | None, baseline: str | None) -> Table:
    """Median step, its 95 % interval and the speed-up over the best baseline; the digest `winner` is marked.

    `baseline` is the digest of the one that the verdict compares with; None, without a verdict, for the quickest.
    The speed-up of what was timed once, at another moment than the yardstick, is marked with a tilde.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("strategy", min_width=22, overflow="ellipsis", no_wrap=True)
    for title, width in (("", 8), ("median", 9), ("95 % interval", 13), ("speed-up", 8)):
        table.add_column(title, justify="right" if title else "left", min_width=width, no_wrap=True)
    table.add_column("steps", no_wrap=True)
    yardstick = _yardstick_seconds(rows, baseline)
    for row in rows:
        table.add_row(
            f"{'> ' if row.digest == winner else '  '}{marked(row.label, row.changes_statistics)}",
            row.digest[:8],
            milliseconds(row.median_seconds),
            f"{row.interval[0] * 1e3:.1f} - {row.interval[1] * 1e3:.1f}" if row.interval else "",
            f"{'' if row.remeasured else '~ '}{yardstick / row.median_seconds:.2f} x" if row.median_seconds else "",
            _remark(row),
            style="bold" if row.digest == winner else None,
        )
    return table


def _yardstick_seconds(rows: Sequence[Contender], baseline: str | None) -> float:
    """Median step seconds of `baseline`, or of the quickest one, which was measured again if any was."""
    measured = [row for row in rows if row.purpose == "baseline" and row.median_seconds]
    measured = [row for row in measured if row.digest == baseline] or measured
    final = [row for row in measured if row.remeasured] or measured
    return min((row.median_seconds or float("inf") for row in final), default=float("nan"))


def _remark(row: Contender) -> str:
    if row.remeasured:
        return f"{row.steps} in {len(row.turns)} turns" if row.turns else f"{row.steps}"
    return {"ok": f"{row.steps}", "stopped": f"stopped at {row.steps}"}.get(row.outcome, row.outcome)


def runs_table(rows: Sequence[Listed]) -> Table:
    """One line a run, the latest first."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("run", "model", "nodes"):
        table.add_column(title, overflow="fold", justify="right" if title == "nodes" else "left")
    for title in ("trials", "took", "best step", "speed-up", "95 % interval"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for row in rows:
        interval = row.speedup_interval
        table.add_row(
            row.title,
            row.model,
            str(row.nodes),
            "-" if row.trials is None else str(row.trials),
            "-" if row.seconds is None else duration(row.seconds),
            milliseconds(row.best_seconds),
            "-" if row.speedup is None else f"{row.speedup:.2f} x",
            f"{interval[0]:.2f} - {interval[1]:.2f}" if interval else "",
            row.state,
        )
    return table
