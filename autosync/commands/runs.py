"""The command `autosync runs`."""

import json
from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import PLACE, SETTINGS, run_command
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


@click.group("runs", context_settings=SETTINGS)
def command() -> None:
    """Look at runs of tune and train: RUN is a directory or its name in runs/; by default the latest search there."""


RUN = click.argument("run", required=False)
DATA = click.option("--data", type=PLACE, help="Directory of the run's records.  [default: in or beside the run]")


@command.command("list")
@click.argument("folder", type=Path, default=Path("runs"))
def list_runs(folder: Path) -> None:
    """A line for each run in FOLDER, the latest first: searches, races and training runs."""
    found = listed_runs(folder)
    if not found:
        raise AutosyncError(f"A run is a directory with a run.json, but {folder} holds none; name another folder.")
    console = Terminal()
    console.print(runs_table(found))
    for run in found:
        if run.fault:
            console.print(f"{run.title}: {run.fault}")


@command.command()
@RUN
@DATA
def show(run: str | None, data: Place | None) -> None:
    """The verdict of RUN, its contenders, and where its files are."""
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


@command.command()
@RUN
@click.option("--json", "as_json", is_flag=True, help="The strategy itself in place of its file's name.")
def best(run: str | None, as_json: bool) -> None:
    """The file of the strategy that RUN returned, for use in scripts."""
    directory = run_called(None) if run is None else directory_called(run, kinds=(SEARCH, RACE))
    file = directory / "strategy.json"
    if returned_strategy(directory) is None:
        raise AutosyncError(f"A run has a strategy once its trials are over, but {file} is not there; go on with it.")
    emit(read_whole(file).decode().rstrip() if as_json else str(file))


@command.command()
@click.argument("which")
@RUN
@DATA
def strategy(which: str, run: str | None, data: Place | None) -> None:
    """A strategy that RUN has timed, as JSON: WHICH is a baseline's name, or how a digest begins."""
    emit(json.dumps(_with_records(run, data, "Strategies are read").called(which).to_json(), indent=2))


@command.command()
@RUN
@DATA
@click.option("--format", "kind", type=click.Choice(["csv", "json"]), default="csv", show_default=True)
@click.option("--out", type=Path, help="File to write.  [default: standard output]")
def export(run: str | None, data: Place | None, kind: str, out: Path | None) -> None:
    """A row for each trial of RUN."""
    found = _with_records(run, data, "Trials are exported")
    text = csv_of(found.records) if kind == "csv" else json_of(found.records)
    if out is None:
        emit(text, nl=False)
        return
    write_atomically(out, text)


@command.command()
def schema() -> None:
    """The JSON Schema of result.json."""
    emit(json.dumps(result_schema(), indent=2))


def _run(name: str | None, data: Place | None) -> Run:
    return read_run(run_called(name), data)


def _with_records(name: str | None, data: Place | None, what: str) -> Run:
    found = _run(name, data)
    if found.records:
        return found
    if found.kept.elsewhere:
        raise AutosyncError(found.kept.missing("--data"))
    where = f"none of {cut(found.name)} is in {found.data}" if found.data else "there are none where the run kept them"
    raise AutosyncError(f"{what} from the run's records, but {where}; name their directory with --data.")


main = partial(run_command, command)
