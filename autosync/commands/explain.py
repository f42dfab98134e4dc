"""The command `autosync explain`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import SETTINGS, run
from trials.capture_limit import capture_time_limit

__all__ = ["command", "main"]


@click.command("explain", context_settings=SETTINGS)
@click.argument("strategy", type=Path)
@click.option("--model", help="A zoo model such as bert, or package.module:function.  [default: from the records]")
@click.option("--cluster", type=Path, help="Cluster file.  [default: the run's, or what the strategy implies]")
@click.option(
    "--result",
    type=Path,
    help="A run's directory or its result.json, or a directory of records.  [default: beside STRATEGY]",
)
@capture_time_limit
def command(
    strategy: Path, model: str | None, cluster: Path | None, result: Path | None, capture_seconds: float
) -> None:
    """Say what STRATEGY, a strategy.json, does, what it costs, and which baseline it is nearest to."""
    from autosync.explain.report import explained  # NumPy and SciPy are imported only once the command is right
    from autosync.explain.subject import Sources, find_subject

    for line in explained(find_subject(Sources(strategy, model, cluster, result, capture_seconds))):
        click.echo(line)


main = partial(run, command)
