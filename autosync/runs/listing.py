"""The runs in a folder, found and read from their small files alone; the tables of runs and of contenders."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from autosync.errors import AutosyncError
from autosync.runs.contenders import Contender, ratio_of
from autosync.runs.documents import result_of, run_document, state_of
from autosync.runs.run import is_run
from autosync.words.quantities import duration, milliseconds
from autosync.words.strategy import marked

RUNS = Path("runs")
"""The folder in which the tuner keeps runs by default."""

PLAIN_WIDTH = 130
"""Columns of a table where output does not go to a terminal."""

FINISHED, UNPROVEN, UNFINISHED, UNREADABLE = "finished", "no verdict", "unfinished", "unreadable"


@dataclass(frozen=True)
class Listed:
    """One run. What a run has not found out yet, or does not tell, is None; `best_seconds` is the returned strategy's
    median step. `fault` is why its files cannot be read, if so."""

    directory: Path
    title: str
    model: str
    nodes: int
    begun: float
    trials: int | None
    seconds: float | None
    best_seconds: float | None
    speedup: float | None
    speedup_interval: tuple[float, float] | None
    state: str
    fault: str = ""
    time: str = "real"


def listed_runs(folder: Path) -> list[Listed]:
    """The runs in `folder`, the one begun last first; those that cannot be read among them. Raises `AutosyncError` when
    the folder cannot be listed."""
    try:
        directories = [each for each in sorted(folder.iterdir()) if is_run(each)]
    except OSError as error:
        raise AutosyncError(
            f"Runs are listed in a folder, but {folder} cannot be read: {error.strerror}; name another."
        ) from None
    return sorted((_listed(each) for each in directories), key=lambda each: -each.begun)


def run_called(name: str | None, folder: Path = RUNS) -> Path:
    """The directory of the run `name`, a path or a name in `folder`; of the latest there when None.

    Raises `AutosyncError` when there is none.
    """
    if name is not None:
        found = next((each for each in (Path(name), folder / name) if is_run(each)), None)
        if found is None:
            raise AutosyncError(
                f"A run is a directory with a run.json, but there is none at {name} or {folder / name}; "
                f"list those there are with autosync runs list."
            )
        return found
    runs = [each for each in listed_runs(folder) if not each.fault] if folder.is_dir() else []
    if not runs:
        raise AutosyncError(f"There is no run in {folder}; name a run's directory.")
    return runs[0].directory


def _listed(directory: Path) -> Listed:
    begun = (directory / "run.json").stat().st_mtime
    try:
        document = run_document(directory)
        result, state = result_of(directory) or {}, state_of(directory) or {}
    except AutosyncError as error:
        nothing = (None,) * 5
        return Listed(directory, directory.name, "?", 0, begun, *nothing, state=UNREADABLE, fault=str(error))
    verdict: Mapping[str, Any] = result.get("verdict") or {}
    rows = {row.get("strategy_digest"): row for row in result.get("strategies", ())}
    low_high = verdict.get("speedup_interval")
    searched = state.get("searcher", {}).get("records")
    return Listed(
        directory=directory,
        title=directory.name,
        model=str(result.get("model") or document.get("options", {}).get("model", "?")),
        nodes=len(document.get("cluster", {}).get("nodes", ())),
        begun=begun,
        trials=result.get("trials", len(searched) if searched is not None else None),
        seconds=result.get("wall_seconds", state.get("seconds_gone")),
        best_seconds=rows.get(verdict.get("winner"), {}).get("median_seconds"),
        speedup=verdict.get("speedup") if verdict.get("beyond_noise") else 1.0 if verdict else None,
        speedup_interval=(low_high[0], low_high[1]) if low_high and verdict.get("beyond_noise") else None,
        state=FINISHED if verdict else UNPROVEN if result else UNFINISHED,
        time="paced" if any(node.get("pace") for node in document.get("cluster", {}).get("nodes", ())) else "real",
    )


def plain_console() -> Console:
    """Where tables are printed. What they show may hold brackets and colons, which are no markup."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def contenders_table(rows: Sequence[Contender], winner: str | None, baseline: str | None) -> Table:
    """Median step, its 95 % interval and the speed-up over the best baseline; the digest `winner` is marked.

    `baseline` is the digest of the one that the verdict compares with; None, without a verdict, for the quickest.
    The speed-up is that of the verdict, paired over the rounds of the finals. A tilde marks a ratio of medians, for
    strategies that were timed at another moment than the yardstick.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("strategy", min_width=22, overflow="ellipsis", no_wrap=True)
    for title, width in (("", 8), ("median", 9), ("95 % interval", 13), ("speed-up", 8)):
        table.add_column(title, justify="right" if title else "left", min_width=width, no_wrap=True)
    table.add_column("steps", no_wrap=True)
    yardstick = _yardstick(rows, baseline)
    for row in rows:
        table.add_row(
            f"{'> ' if row.digest == winner else '  '}{marked(row.label, row.changes_statistics, row.time)}",
            row.digest[:8],
            milliseconds(row.median_seconds, row.time),
            f"{row.interval[0] * 1e3:.1f} - {row.interval[1] * 1e3:.1f}" if row.interval else "",
            _speedup(row, yardstick),
            _remark(row),
            style="bold" if row.digest == winner else None,
        )
    return table


def _speedup(row: Contender, yardstick: Contender | None) -> str:
    ratio = ratio_of(row, yardstick) if yardstick else None
    return f"{'' if ratio.is_paired else '~ '}{ratio.times:.2f} x" if ratio else ""


def _yardstick(rows: Sequence[Contender], baseline: str | None) -> Contender | None:
    """The contender `baseline`, or the quickest baseline, which was measured again if any was."""
    measured = [row for row in rows if row.purpose == "baseline" and row.median_seconds]
    measured = [row for row in measured if row.digest == baseline] or measured
    final = [row for row in measured if row.remeasured] or measured
    return min(final, key=lambda row: row.median_seconds or float("inf"), default=None)


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
            milliseconds(row.best_seconds, row.time),
            "-" if row.speedup is None else f"{row.speedup:.2f} x",
            f"{interval[0]:.2f} - {interval[1]:.2f}" if interval else "",
            row.state,
        )
    return table
