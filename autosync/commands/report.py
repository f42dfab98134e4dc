"""The command `autosync report`."""

from functools import partial
from pathlib import Path

import click
from rich.table import Table

from autosync.commands.shell import PLACE, SETTINGS, run_command
from autosync.report.comparison import Comparison, standings_of, write_comparison
from autosync.report.numbers import NOTHING, ratio
from autosync.report.page import write_report
from autosync.report.race import write_race_report
from autosync.runs import read_run, run_called
from autosync.runs.listing import plain_console
from autosync.runs.race_folder import RaceFolder, is_race
from autosync.spec.address import Place
from autosync.words.quantities import duration, milliseconds

COMPARISON = Path("comparison.html")


@click.command("report", context_settings=SETTINGS)
@click.argument("runs", metavar="RUN [RUN ...]", nargs=-1, required=True)
@click.option("--data", type=PLACE, help="Directory of the runs' records.  [default: in or beside each run]")
@click.option("--out", type=Path, help=f"File to write.  [default: report.html in the run; of several {COMPARISON}]")
def command(runs: tuple[str, ...], data: Place | None, out: Path | None) -> None:
    """Write the report of a RUN again, or a page that compares several; RUN is a directory, or a name in runs/."""
    if len(runs) == 1 and is_race(Path(runs[0])):
        click.echo(f"Report: {write_race_report(RaceFolder(Path(runs[0])))}")
        return
    found = [read_run(run_called(each), data) for each in runs]
    for run in found:
        if not run.records and run.kept.elsewhere:
            click.echo(f"{run.directory}: {run.kept.missing('--data')}")
        elif run.trial_count and not run.records:
            where = f"in {run.data}" if run.data else "where the run kept them"
            click.echo(
                f"None of the {run.trial_count} trials of {run.directory} is {where}; name their place with --data."
            )
    if len(found) == 1:
        click.echo(f"Report: {write_report(found[0], out)}")
        return
    comparison = standings_of(found)
    console = plain_console()
    if not comparison.is_of_one_cell:
        console.print(f"These runs are of different {comparison.differ_in}: their step times do not compare.")
    console.print(_table(comparison))
    console.print(f"Comparison: {write_comparison(comparison, out or COMPARISON)}", soft_wrap=True)


def _table(comparison: Comparison) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("run", "model"):
        table.add_column(title, overflow="fold")
    for title in ("nodes", "trials", "took"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("returned", overflow="fold")
    for title in ("step", "speed-up", "95 % interval"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in comparison.standings:
        table.add_row(
            each.title,
            each.run.model_name,
            str(len(each.run.cluster.nodes)),
            str(each.run.trial_count),
            duration(each.run.wall_seconds) if each.run.wall_seconds else NOTHING,
            each.winner.name if each.winner else NOTHING,
            milliseconds(each.winner.median_seconds, each.winner.time) if each.winner else NOTHING,
            ratio(each.speedup),
            f"{each.interval[0]:.2f} - {each.interval[1]:.2f}" if each.interval else "",
        )
    return table


main = partial(run_command, command)
