"""Lists the runs in a folder (searches, races and training runs) from their small files alone."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError, did_you_mean
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
class RunSummary:
    """One run in a list. Figures that the run does not have (yet) are None."""

    directory: Path
    title: str

    kind: str
    """`SEARCH`, `RACE` or `TRAINING`."""

    begun: float
    """The time at which the run began, in seconds since the epoch."""

    state: str
    model: str = "?"
    nodes: int | None = None

    trials: int | None = None
    """The trials of a search, or the runs of a race."""

    seconds: float | None = None
    """Wall seconds that the run has taken."""

    best_seconds: float | None = None
    """Median step seconds of the returned strategy."""

    speedup: float | None = None
    """The speed-up of the returned strategy; 1 if the baseline is returned."""

    speedup_interval: tuple[float, float] | None = None

    fault: str = ""
    """The reason why the files cannot be read, or empty."""

    time: str = "real"


def list_runs(folder: Path) -> list[RunSummary]:
    """The runs in `folder`, the latest first, unreadable runs included. Raises `AutosyncError` if the folder cannot
    be listed.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise AutosyncError(
            f"Runs are listed in a folder, but {folder} cannot be read: {error.strerror}; name another."
        ) from None
    listed = [run for entry in entries if (run := summarize(entry)) is not None]
    return sorted(listed, key=lambda run: -run.begun)


def run_called(name: str | None, folder: Path = RUNS) -> Path:
    """The directory of the search `name`, a path or a name in `folder`; the latest search there if `name` is None.

    Raises `AutosyncError` if there is none.
    """
    if name is not None:
        return directory_called(name, folder, kinds=(SEARCH,))
    runs = [run for run in list_runs(folder) if run.kind == SEARCH and not run.fault] if folder.is_dir() else []
    if not runs:
        raise AutosyncError(f"There is no search in {folder}; name a run's directory.")
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
        f"list the existing runs with `autosync runs list`.{did_you_mean(name, _names_in(folder))}"
    )


def _names_in(folder: Path) -> list[str]:
    """The names of the entries of `folder`; none if it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def kind_of(directory: Path) -> str | None:
    """The kind of the run in `directory`; None if there is no run. An unreadable run counts as a search."""
    if not is_run(directory):
        return RACE if is_race(directory) else None
    try:
        return TRAINING if is_training(document_in(directory / "run.json") or {}) else SEARCH
    except AutosyncError:
        return SEARCH


def summarize(directory: Path) -> RunSummary | None:
    """The run in `directory`; None if there is none."""
    try:
        kind = kind_of(directory)
        if kind is None:
            return None
        begun = (directory / ("race.json" if kind == RACE else "run.json")).stat().st_mtime
    except OSError as error:  # a directory that may not be entered
        fault = f"It cannot be read: {error.strerror}."
        return RunSummary(directory, directory.name, "?", math.inf, UNREADABLE, fault=fault)
    try:
        return {SEARCH: _search, RACE: _race, TRAINING: _training}[kind](directory, begun)
    except AutosyncError as error:
        return RunSummary(directory, directory.name, kind, begun, UNREADABLE, fault=str(error))


def _search(directory: Path, begun: float) -> RunSummary:
    document = run_document(directory)
    result, state = result_of(directory) or {}, state_of(directory) or {}
    verdict: Mapping[str, Any] = result.get("verdict") or {}
    rows = {row.get("strategy_digest"): row for row in result.get("strategies", ())}
    low_high = verdict.get("speedup_interval")
    searched = state.get("searcher", {}).get("records")
    nodes = document.get("cluster", {}).get("nodes", ())
    return RunSummary(
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


def _race(directory: Path, begun: float) -> RunSummary:
    folder = RaceFolder(directory)
    asked, result = folder.asked(), folder.result()
    cluster = ClusterSpec.from_json(asked["cluster"])
    places = {place["name"]: place for place in (result or {}).get("places", ())}
    returned = places.get((result or {}).get("returned"), {})
    over = returned.get("times_as_fast_as_plain", {})
    proven = bool(result and result["proven"])
    return RunSummary(
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


def _training(directory: Path, begun: float) -> RunSummary:
    run = read_training(directory)
    return RunSummary(
        directory,
        directory.name,
        TRAINING,
        begun,
        f"step {run.steps}",
        model=run.model,
        best_seconds=run.median_step_seconds,
    )
