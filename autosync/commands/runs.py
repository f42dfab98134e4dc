"""The command `autosync runs`."""

import json
from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import PLACE, SETTINGS, run_command
from autosync.errors import AutosyncError
from autosync.files import write_atomically
from autosync.runs.contenders import beside_the_verdict, contenders_of, verdict_in_words
from autosync.runs.documents import result_schema, returned_strategy
from autosync.runs.export import csv_of, json_of
from autosync.runs.listing import contenders_table, listed_runs, plain_console, run_called, runs_table
from autosync.runs.run import Run, read_run
from autosync.spec import cut
from autosync.spec.address import Place


@click.group("runs", context_settings=SETTINGS)
def command() -> None:
    """Look at the runs of autosync tune: RUN is a run's directory or its name in runs/; by default the latest there."""


RUN = click.argument("run", required=False)
DATA = click.option("--data", type=PLACE, help="Directory of the run's records.  [default: in or beside the run]")


@command.command("list")
@click.argument("folder", type=Path, default=Path("runs"))
def list_runs(folder: Path) -> None:
    """A line for each run in FOLDER, the latest first."""
    found = listed_runs(folder)
    if not found:
        raise AutosyncError(f"A run is a directory with a run.json, but {folder} holds none; name another folder.")
    console = plain_console()
    console.print(runs_table(found))
    for each in found:
        if each.fault:
            console.print(f"{each.title}: {each.fault}", soft_wrap=True)


@command.command()
@RUN
@DATA
def show(run: str | None, data: Place | None) -> None:
    """The verdict of RUN, its contenders, and where its files are."""
    found, console = _run(run, data), plain_console()
    nodes = len(found.cluster.nodes)
    console.print(
        f"Run {found.title}: {found.model_name} on {nodes} node{'s' * (nodes != 1)}, {found.trial_count} trials."
    )
    console.print()
    rows = contenders_of(found)
    if rows:
        verdict = found.verdict
        console.print(
            contenders_table(rows, verdict["winner"] if verdict else None, verdict["baseline"] if verdict else None)
        )
        console.print()
    said = "There is no verdict yet: the finals were not held."
    if found.verdict:
        said = " ".join([verdict_in_words(found.verdict), *beside_the_verdict(found.verdict)])
    console.print(said, style="bold", soft_wrap=True)
    if not found.records and found.kept.elsewhere:
        console.print(found.kept.missing("--data"), soft_wrap=True)
    for what, name in (("Strategy", "strategy.json"), ("Result", "result.json"), ("Report", "report.html")):
        if (found.directory / name).exists():
            console.print(f"{what + ':':<9} {found.directory / name}", soft_wrap=True)


@command.command()
@RUN
@click.option("--json", "as_json", is_flag=True, help="The strategy itself in place of its file's name.")
def best(run: str | None, as_json: bool) -> None:
    """The file of the strategy that RUN returned, for use in scripts."""
    directory = run_called(run)
    file = directory / "strategy.json"
    if returned_strategy(directory) is None:
        raise AutosyncError(f"A run has a strategy once its trials are over, but {file} is not there; go on with it.")
    click.echo(file.read_text(encoding="utf-8").rstrip() if as_json else str(file))


@command.command()
@click.argument("which")
@RUN
@DATA
def strategy(which: str, run: str | None, data: Place | None) -> None:
    """A strategy that RUN has timed, as JSON: WHICH is a baseline's name, or how a digest begins."""
    click.echo(json.dumps(_with_records(run, data, "Strategies are read").called(which).to_json(), indent=2))


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
        click.echo(text, nl=False)
        return
    write_atomically(out, text)


@command.command()
def schema() -> None:
    """The JSON Schema of result.json."""
    click.echo(json.dumps(result_schema(), indent=2))


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
