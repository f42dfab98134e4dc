"""The runs in a folder, each in a line, from its small files alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError
from autosync.runs.run import is_run
from autosync.spec import parse_json

__all__ = ["RUNS", "Listed", "listed_runs", "run_called"]

RUNS = Path("runs")
"""Where the tuner keeps runs by default."""

FINISHED, UNPROVEN, UNFINISHED = "finished", "no verdict", "unfinished"


@dataclass(frozen=True)
class Listed:
    """One run. What a run has not found out yet is None; `best_seconds` is the returned strategy's median step."""

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


def listed_runs(folder: Path) -> list[Listed]:
    """The runs in `folder`, the one begun last first. Raises `AutosyncError` when it cannot be listed."""
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
    runs = listed_runs(folder) if folder.is_dir() else []
    if not runs:
        raise AutosyncError(f"There is no run in {folder}; name a run's directory.")
    return runs[0].directory


def _listed(directory: Path) -> Listed:
    document = _read(directory / "run.json")
    result, state = _read(directory / "result.json"), _read(directory / "search.json")
    verdict: Mapping[str, Any] = result.get("verdict") or {}
    rows = {row.get("strategy_digest"): row for row in result.get("strategies", ())}
    low_high = verdict.get("speedup_interval")
    searched = state.get("searcher", {}).get("records")
    return Listed(
        directory=directory,
        title=directory.name,
        model=str(result.get("model") or document.get("options", {}).get("model", "?")),
        nodes=len(document.get("cluster", {}).get("nodes", ())),
        begun=(directory / "run.json").stat().st_mtime,
        trials=result.get("trials", len(searched) if searched is not None else None),
        seconds=result.get("wall_seconds", state.get("seconds_gone")),
        best_seconds=rows.get(verdict.get("winner"), {}).get("median_seconds"),
        speedup=verdict.get("speedup") if verdict.get("beyond_noise") else 1.0 if verdict else None,
        speedup_interval=(low_high[0], low_high[1]) if low_high and verdict.get("beyond_noise") else None,
        state=FINISHED if verdict else UNPROVEN if result else UNFINISHED,
    )


def _read(file: Path) -> dict[str, Any]:
    """The object in `file`; an empty one where there is none."""
    try:
        return parse_json(file.read_bytes(), str(file)) if file.exists() else {}
    except OSError as error:
        raise AutosyncError(f"{file} cannot be read: {error.strerror}.") from None
