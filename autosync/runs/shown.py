"""Runs as `autosync runs` prints them: a list, a verdict, a strategy, a table for programs."""

import json
import re
from pathlib import Path

from autosync.errors import AutosyncError
from autosync.files import read_whole, write_atomically
from autosync.runs.contenders import beside_the_verdict, contenders_of, verdict_in_words
from autosync.runs.documents import result_schema, returned_strategy
from autosync.runs.export import csv_of, json_of
from autosync.runs.listing import RACE, SEARCH, TRAINING, directory_called, kind_of, listed_runs, run_called
from autosync.runs.race_folder import RaceFolder
from autosync.runs.run import Run, read_run
from autosync.runs.run_tables import contenders_table, race_table, runs_table
from autosync.runs.training_folder import TrainingRun, read_training
from autosync.spec import ClusterSpec, cut
from autosync.spec.address import Place
from autosync.terminal import Terminal, emit
from autosync.words.quantities import counted, milliseconds


def show_list(folder: Path) -> None:
    """Print a line for each run in `folder`. Raises `AutosyncError` where there is none."""
    found = listed_runs(folder)
    if not found:
        raise AutosyncError(f"A run is a directory with a run.json, but {folder} holds none; name another folder.")
    console = Terminal()
    console.print(runs_table(found))
    for run in found:
        if run.fault:
            console.print(f"{run.title}: {run.fault}")


def show_run(run: str | None, data: Place | None) -> None:
    """Print the run `run` of any kind, by default the latest search, and its files. Raises `AutosyncError`."""
    directory, console = run_called(None) if run is None else directory_called(run), Terminal()
    kind = kind_of(directory)
    if kind == RACE:
        _show_race(RaceFolder(directory), console)
    elif kind == TRAINING:
        _show_training(read_training(directory), console)
    else:
        _show_search(read_run(directory, data), console)
    for title, name in FILES:
        if (directory / name).exists():
            console.print(f"{title + ':':<9} {directory / name}")


FILES = (
    ("Strategy", "strategy.json"),
    ("Result", "result.json"),
    ("Report", "report.html"),
    ("Checkpoints", "checkpoints"),
)


def _show_search(found: Run, console: Terminal) -> None:
    nodes = counted(len(found.cluster.nodes), "node")
    console.print(f"Run {found.title}: {found.model_name} on {nodes}, {found.trial_count} trials.")
    console.print()
    verdict, rows = found.verdict, contenders_of(found)
    if rows:
        winner, baseline = (verdict["winner"], verdict["baseline"]) if verdict else (None, None)
        console.print(contenders_table(rows, winner, baseline))
        console.print()
    said = "There is no verdict yet: the finals were not held."
    if verdict:
        said = " ".join([verdict_in_words(verdict), *beside_the_verdict(verdict)])
    console.print(said, style="bold")
    if not found.records and found.kept.elsewhere:
        console.print(found.kept.missing("--data"))


def _show_race(folder: RaceFolder, console: Terminal) -> None:
    asked, result = folder.asked(), folder.result()
    nodes = counted(len(ClusterSpec.from_json(asked["cluster"]).nodes), "node")
    console.print(f"Race {folder.path.name}: {asked['model']} on {nodes}, {counted(folder.record_count, 'run')}.")
    console.print()
    if result is None:
        console.print("There is no outcome yet: the race has not ended.", style="bold")
        return
    console.print(race_table(result))
    console.print()
    said = f"{result['winner']} reaches the target surely sooner than plain training."
    if not result["proven"]:
        said = "No candidate is surely faster than plain training, which is returned."
    console.print(said, style="bold")


def _show_training(run: TrainingRun, console: Terminal) -> None:
    loss = "no line yet" if run.loss is None else f"step {run.steps}, loss {run.loss:.4f}"
    step = milliseconds(run.median_step_seconds)
    console.print(f"Training {run.directory.name}: {run.model}, {loss}, {step} a step.")
    console.print(f"Strategy digest: {run.strategy_digest}")


def show_best(run: str | None, as_json: bool) -> None:
    """Print the file of the returned strategy, or its text. Raises `AutosyncError`."""
    directory = run_called(None) if run is None else directory_called(run, kinds=(SEARCH, RACE))
    file = directory / "strategy.json"
    if returned_strategy(directory) is None:
        raise AutosyncError(f"A run has a strategy once its trials are over, but {file} is not there; go on with it.")
    emit(_escaped(read_whole(file).decode().rstrip()) if as_json else str(file))


def _escaped(document: str) -> str:
    """The JSON `document` with JSON's own escapes for characters that are not printable."""
    return re.sub(r"[^\n\t\r -~]", _escaped_character, document)


def _escaped_character(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1].replace("\x7f", r"\u007f")


def show_strategy(which: str, run: str | None, data: Place | None) -> None:
    """Print a timed strategy as JSON. Raises `AutosyncError`."""
    emit(json.dumps(_with_records(run, data, "Strategies are read").called(which).to_json(), indent=2))


def show_trials(run: str | None, data: Place | None, kind: str, out: Path | None) -> None:
    """Print a row for each trial, or write the rows to `out`. Raises `AutosyncError`."""
    found = _with_records(run, data, "Trials are exported")
    text = csv_of(found.records) if kind == "csv" else json_of(found.records)
    if out is None:
        emit(text, nl=False)
        return
    write_atomically(out, text)


def show_schema() -> None:
    """Print the JSON Schema of result.json."""
    emit(json.dumps(result_schema(), indent=2))


def _with_records(name: str | None, data: Place | None, what: str) -> Run:
    found = read_run(run_called(name), data)
    if found.records:
        return found
    if found.kept.elsewhere:
        raise AutosyncError(found.kept.missing("--data"))
    where = f"none of {cut(found.name)} is in {found.data}" if found.data else "there are none where the run kept them"
    raise AutosyncError(f"{what} from the run's records, but {where}; name their directory with --data.")
