"""The runs in a folder, each in a line, read from its small files alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError
from autosync.runs.documents import result_of, run_document, state_of
from autosync.runs.run import is_run

__all__ = ["RUNS", "Listed", "listed_runs", "run_called"]

RUNS = Path("runs")
"""The folder in which the tuner keeps runs by default."""

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
                f"list those there are with python -m autosync.runs list."
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
    )
