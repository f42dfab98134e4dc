"""The command `autosync runs`."""

from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import PLACE, SETTINGS, run_command
from autosync.spec.address import Place


@click.group("runs", context_settings=SETTINGS)
def command() -> None:
    """Look at runs of tune and train: RUN is a directory or its name in runs/; by default the latest search there."""


RUN = click.argument("run", required=False)
DATA = click.option("--data", type=PLACE, help="Directory of the run's records.  [default: in or beside the run]")


@command.command("list")
@click.argument("folder", type=Path, default=Path("runs"))
def list_runs(folder: Path) -> None:
    """A line for each run in FOLDER, the latest first: searches, races and training runs."""
    from autosync.runs.shown import show_list  # SciPy, here and below

    show_list(folder)


@command.command()
@RUN
@DATA
def show(run: str | None, data: Place | None) -> None:
    """The verdict of RUN, its contenders, and where its files are."""
    from autosync.runs.shown import show_run

    show_run(run, data)


@command.command()
@RUN
@click.option("--json", "as_json", is_flag=True, help="The strategy itself in place of its file's name.")
def best(run: str | None, as_json: bool) -> None:
    """The file of the strategy that RUN returned, for use in scripts."""
    from autosync.runs.shown import show_best

    show_best(run, as_json)


@command.command()
@click.argument("which")
@RUN
@DATA
def strategy(which: str, run: str | None, data: Place | None) -> None:
    """A strategy that RUN has timed, as JSON: WHICH is a baseline's name, or how a digest begins."""
    from autosync.runs.shown import show_strategy

    show_strategy(which, run, data)


@command.command()
@RUN
@DATA
@click.option("--format", "kind", type=click.Choice(["csv", "json"]), default="csv", show_default=True)
@click.option("--out", type=Path, help="File to write.  [default: standard output]")
def export(run: str | None, data: Place | None, kind: str, out: Path | None) -> None:
    """A row for each trial of RUN."""
    from autosync.runs.shown import show_trials

    show_trials(run, data, kind, out)


@command.command()
def schema() -> None:
    """The JSON Schema of result.json."""
    from autosync.runs.shown import show_schema

    show_schema()


main = partial(run_command, command)
