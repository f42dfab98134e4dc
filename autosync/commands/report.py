"""The command `autosync report`."""

from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import SETTINGS, run_command
from autosync.commands.values import FILE, PLACE, complete_run
from autosync.spec.address import Place


@click.command("report", context_settings=SETTINGS)
@click.argument("runs", metavar="RUN [RUN ...]", nargs=-1, required=True, shell_complete=complete_run)
@click.option("--data", type=PLACE, help="Directory of the runs' records.  [default: in or next to each run]")
@click.option(
    "--out", type=FILE, help="File to write.  [default: report.html in the run, or comparison.html for several]"
)
def command(runs: tuple[str, ...], data: Place | None, out: Path | None) -> None:
    """Write the report of a RUN again, or a page that compares several runs. RUN is a directory, or a name in runs/."""
    from autosync.report.command import report  # matplotlib

    report(runs, data, out)


main = partial(run_command, command)
