"""The command `autosync runs`."""

from functools import partial
from pathlib import Path

import click

from autosync.commands.options import run_data_option
from autosync.commands.output import Output, json_option
from autosync.commands.shell import SETTINGS, run_command
from autosync.commands.values import FILE, complete_among, complete_run, labels_of_baselines
from autosync.spec.address import Place


@click.group("runs", context_settings=SETTINGS)
def command() -> None:
    """Look at runs of tune and train: RUN is a directory or its name in runs/; by default the latest search there."""


RUN = click.argument("run", required=False, shell_complete=complete_run)
JSON = json_option("Print JSON instead of a table.")


@command.command("list")
@click.argument("folder", type=FILE, default=Path("runs"))
@JSON
def list_runs(folder: Path, as_json: bool) -> None:
    """Print a line for each run in FOLDER, the latest first: searches, races and training runs."""
    from autosync.runs.shown import show_list  # SciPy, here and below
    from autosync.runs.shown_json import list_json

    with Output(as_json).channel() as report:
        if as_json:
            report(list_json(folder))
        else:
            show_list(folder)


@command.command()
@RUN
@run_data_option
@JSON
def show(run: str | None, data: Place | None, as_json: bool) -> None:
    """Print the verdict of RUN, its contenders, and the paths of its files."""
    from autosync.runs.shown import show_run
    from autosync.runs.shown_json import run_json

    with Output(as_json).channel() as report:
        if as_json:
            report(run_json(run, data))
        else:
            show_run(run, data)


@command.command()
@RUN
@json_option("Print the strategy itself instead of the name of its file.")
def best(run: str | None, as_json: bool) -> None:
    """Print the file of the strategy that RUN returned, for use in scripts."""
    from autosync.runs.shown import show_best

    show_best(run, as_json)


@command.command()
@click.argument("which", shell_complete=complete_among(labels_of_baselines))
@RUN
@run_data_option
def strategy(which: str, run: str | None, data: Place | None) -> None:
    """Print a strategy that RUN has timed, as JSON: WHICH is a baseline's name, or the start of a digest."""
    from autosync.runs.shown import show_strategy

    show_strategy(which, run, data)


@command.command()
@RUN
@run_data_option
@click.option("--format", "kind", type=click.Choice(["csv", "json"]), default="csv", show_default=True)
@click.option("--out", type=FILE, help="File to write.  [default: standard output]")
def export(run: str | None, data: Place | None, kind: str, out: Path | None) -> None:
    """Print a row for each trial of RUN."""
    from autosync.runs.shown import show_trials

    show_trials(run, data, kind, out)


@command.command()
def schema() -> None:
    """Print the JSON Schema of result.json."""
    from autosync.runs.shown import show_schema

    show_schema()


main = partial(run_command, command)
