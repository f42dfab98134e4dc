"""The runs in a folder: searches, races and training runs, found and read from their small files alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError
from autosync.runs.documents import document_in, result_of, run_document, state_of
from autosync.runs.race_folder import RaceFolder, is_race
from autosync.runs.run import is_run
from autosync.runs.training_folder import is_training, read_training
from autosync.spec import ClusterSpec

RUNS = Path("runs")
"""The folder in which the tuner keeps runs by default."""

SEARCH, RACE, TRAINING = "search", "race", "training"
FINISHED, UNPROVEN, UNFINISHED, UNREADABLE = "finished", "no verdict", "unfinished", "unreadable"


@dataclass(frozen=True)
class Listed:
    """One run. Figures that a run does not know yet, or does not have, are None.

    `trials` counts those of a search, the runs of a race, or the steps of training. `best_seconds` is the median step
    of the returned strategy. `fault` is the reason why the files cannot be read, or empty.
    """

    directory: Path
    title: str
    kind: str
    begun: float
    state: str
    model: str = "?"
    nodes: int | None = None
    trials: int | None = None
    seconds: float | None = None
    best_seconds: float | None = None
    speedup: float | None = None
    speedup_interval: tuple[float, float] | None = None
    fault: str = ""
    time: str = "real"


def listed_runs(folder: Path) -> list[Listed]:
    """The runs in `folder`, the one begun last first; unreadable runs are among them. Raises `AutosyncError` if the
    folder cannot be listed."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise AutosyncError(
            f"Runs are listed in a folder, but {folder} cannot be read: {error.strerror}; name another."
        ) from None
    listed = [run for entry in entries if (run := _listed(entry)) is not None]
    return sorted(listed, key=lambda run: -run.begun)


def run_called(name: str | None, folder: Path = RUNS) -> Path:
    """The directory of the search `name`, a path or a name in `folder`; of the latest there when None.

    Raises `AutosyncError` when there is none.
    """
    if name is not None:
        return directory_called(name, folder, kinds=(SEARCH,))
    runs = [run for run in listed_runs(folder) if run.kind == SEARCH and not run.fault] if folder.is_dir() else []
    if not runs:
        raise AutosyncError(f"There is no run in {folder}; name a run's directory.")
    return runs[0].directory


def directory_called(name: str, folder: Path = RUNS, kinds: tuple[str, ...] = (SEARCH, RACE, TRAINING)) -> Path:
    """The directory of the run `name`, a path or a name in `folder`. Raises `AutosyncError` if its kind is none of
    `kinds`."""
    for directory in (Path(name), folder / name):
        kind = kind_of(directory)
        if kind in kinds:
            return directory
        if kind is not None:
            raise AutosyncError(f"{directory} holds a {kind} run, but this command is for a {' or a '.join(kinds)}.")
    raise AutosyncError(
        f"A run is a directory with a run.json, but there is none at {name} or {folder / name}; "
        f"list those there are with autosync runs list."
    )


def kind_of(directory: Path) -> str | None:
    """The kind of the run in `directory`; None where there is no run. An unreadable run counts as a search."""
    if not is_run(directory):
        return RACE if is_race(directory) else None
    try:
        return TRAINING if is_training(document_in(directory / "run.json") or {}) else SEARCH
    except AutosyncError:
        return SEARCH


def _listed(directory: Path) -> Listed | None:
    try:
        kind = kind_of(directory)
        if kind is None:
            return None
        begun = (directory / ("race.json" if kind == RACE else "run.json")).stat().st_mtime
    except OSError as error:  # a directory that may not be entered
        fault = f"It cannot be read: {error.strerror}."
        return Listed(directory, directory.name, "?", math.inf, UNREADABLE, fault=fault)
    try:
        return {SEARCH: _search, RACE: _race, TRAINING: _training}[kind](directory, begun)
    except AutosyncError as error:
        return Listed(directory, directory.name, kind, begun, UNREADABLE, fault=str(error))


def _search(directory: Path, begun: float) -> Listed:
    document = run_document(directory)
    result, state = result_of(directory) or {}, state_of(directory) or {}
    verdict: Mapping[str, Any] = result.get("verdict") or {}
    rows = {row.get("strategy_digest"): row for row in result.get("strategies", ())}
    low_high = verdict.get("speedup_interval")
    searched = state.get("searcher", {}).get("records")
    nodes = document.get("cluster", {}).get("nodes", ())
    return Listed(
        directory,
        directory.name,
        SEARCH,
        begun,
        FINISHED if verdict else UNPROVEN if result else UNFINISHED,
        model=str(result.get("model") or document.get("options", {}).get("model", "?")),
        nodes=len(nodes),
        trials=result.get("trials", len(searched) if searched is not None else None),
        seconds=result.get("wall_seconds", state.get("seconds_gone")),
        best_seconds=rows.get(verdict.get("winner"), {}).get("median_seconds"),
        speedup=verdict.get("speedup") if verdict.get("beyond_noise") else 1.0 if verdict else None,
        speedup_interval=(low_high[0], low_high[1]) if low_high and verdict.get("beyond_noise") else None,
        time="paced" if any(node.get("pace") for node in nodes) else "real",
    )


def _race(directory: Path, begun: float) -> Listed:
    folder = RaceFolder(directory)
    asked, result = folder.asked(), folder.result()
    cluster = ClusterSpec.from_json(asked["cluster"])
    places = {place["name"]: place for place in (result or {}).get("places", ())}
    returned = places.get((result or {}).get("returned"), {})
    over = returned.get("times_as_fast_as_plain", {})
    proven = bool(result and result["proven"])
    return Listed(
        directory,
        directory.name,
        RACE,
        begun,
        FINISHED if result else UNFINISHED,
        model=str(asked["model"]),
        nodes=len(cluster.nodes),
        trials=folder.record_count,
        best_seconds=returned.get("step_seconds"),
        speedup=over.get("value") if proven else 1.0 if result else None,
        speedup_interval=(over["low"], over["high"]) if proven and over.get("low") and over.get("high") else None,
        time=cluster.time,
    )


def _training(directory: Path, begun: float) -> Listed:
    run = read_training(directory)
    return Listed(
        directory,
        directory.name,
        TRAINING,
        begun,
        f"step {run.steps}",
        model=run.model,
        best_seconds=run.median_step_seconds,
    )
