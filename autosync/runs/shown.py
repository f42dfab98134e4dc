"""Prints runs for `autosync runs`: a list, a verdict, a strategy, or a table for programs."""

import json
import re
from pathlib import Path

from autosync.errors import AutosyncError
from autosync.files import read_whole, write_atomically
from autosync.runs.contenders import bound_in_words, contenders_of, pace_explanation, verdict_in_words
from autosync.runs.documents import result_schema, strategy_of_run
from autosync.runs.export import csv_of, json_of
from autosync.runs.listing import RACE, SEARCH, TRAINING, directory_called, kind_of, list_runs, run_called
from autosync.runs.race_folder import RaceFolder
from autosync.runs.run import Run, read_run
from autosync.runs.run_tables import contenders_table, race_table, runs_table
from autosync.runs.training_folder import TrainingRun, read_training
from autosync.spec import ClusterSpec, cut
from autosync.spec.address import Place
from autosync.terminal import Terminal, emit
from autosync.words.quantities import count_of, milliseconds


def show_list(folder: Path) -> None:
    """Print a line for each run in `folder`. Raises `AutosyncError` if there is none."""
    runs = list_runs(folder)
    if not runs:
        raise AutosyncError(f"A run is a directory with a run.json, but {folder} holds none; name another folder.")
    console = Terminal()
    console.print(runs_table(runs))
    for run in runs:
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
    for name, file in files_of(directory).items():
        console.print(f"{name.capitalize() + ':':<9} {file}")


FILES = {
    "strategy": "strategy.json",
    "result": "result.json",
    "report": "report.html",
    "checkpoints": "checkpoints",
}


def files_of(directory: Path) -> dict[str, Path]:
    """The files of the run in `directory` for people, as far as they exist."""
    return {name: directory / file for name, file in FILES.items() if (directory / file).exists()}


def _show_search(run: Run, console: Terminal) -> None:
    nodes = count_of(len(run.cluster.nodes), "node")
    console.print(f"Run {run.title}: {run.model_name} on {nodes}, {count_of(run.trial_count, 'trial')}.")
    if run.cluster.paced:
        console.print(pace_explanation(run.cluster.numbers))
    console.print()
    verdict, rows = run.verdict, contenders_of(run)
    if rows:
        winner, baseline = (verdict["winner"], verdict["baseline"]) if verdict else (None, None)
        console.print(contenders_table(rows, winner, baseline))
        console.print()
    console.print(
        verdict_in_words(verdict) if verdict else "There is no verdict yet, because the finals have not run.",
        style="bold",
    )
    if verdict and (bound := bound_in_words(verdict)):
        console.print(bound)
    if not run.records and run.kept.elsewhere:
        console.print(run.kept.missing("--data"))


def _show_race(folder: RaceFolder, console: Terminal) -> None:
    asked, result = folder.asked(), folder.result()
    nodes = count_of(len(ClusterSpec.from_json(asked["cluster"]).nodes), "node")
    console.print(f"Race {folder.path.name}: {asked['model']} on {nodes}, {count_of(folder.record_count, 'run')}.")
    console.print()
    if result is None:
        console.print("There is no outcome yet: the race has not ended.", style="bold")
        return
    console.print(race_table(result))
    console.print()
    said = f"{result['winner']} reaches the target sooner than plain training, beyond the noise."
    if not result["proven"]:
        said = "No candidate is faster than plain training beyond the noise, so plain training is returned."
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
    if strategy_of_run(directory) is None:
        raise AutosyncError(
            f"A run has a strategy once its trials are over, but {file} does not exist; resume the run."
        )
    emit(_escape(read_whole(file).decode().rstrip()) if as_json else str(file))


def _escape(document: str) -> str:
    """The JSON `document` with JSON's own escapes for characters that are not printable."""
    return re.sub(r"[^\n\t\r -~]", _escape_character, document)


def _escape_character(match: re.Match[str]) -> str:
    character = match[0]
    return character if character.isprintable() else json.dumps(character)[1:-1].replace("\x7f", r"\u007f")


def show_strategy(which: str, run: str | None, data: Place | None) -> None:
    """Print a timed strategy as JSON. Raises `AutosyncError`."""
    emit(json.dumps(_with_records(run, data, "Strategies are read").find_strategy(which).to_json(), indent=2))


def show_trials(run: str | None, data: Place | None, kind: str, out: Path | None) -> None:
    """Print a row for each trial, or write the rows to `out`. Raises `AutosyncError`."""
    run_read = _with_records(run, data, "Trials are exported")
    text = csv_of(run_read.records) if kind == "csv" else json_of(run_read.records)
    if out is None:
        emit(text, nl=False)
        return
    write_atomically(out, text)


def show_schema() -> None:
    """Print the JSON Schema of result.json."""
    emit(json.dumps(result_schema(), indent=2))


def _with_records(name: str | None, data: Place | None, what: str) -> Run:
    run = read_run(run_called(name), data)
    if run.records:
        return run
    if run.kept.elsewhere:
        raise AutosyncError(run.kept.missing("--data"))
    where = f"none of {cut(run.name)} is in {run.data}" if run.data else "there are none where the run kept them"
    raise AutosyncError(f"{what} from the run's records, but {where}; name their directory with --data.")
