"""The command `python -m studies` and its subcommands, one file each."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from autosync.commands.shell import REFUSED, SETTINGS, LazyGroup, run_command
from autosync.errors import AutosyncError
from autosync.shadows import check_folders, check_path
from autosync.terminal import say

__all__ = ["COMMANDS", "command", "main"]

COMMANDS = {
    "bench": "Benchmark searches, on records or live.",
    "collect": "Collect real runtimes on emulated clusters.",
    "evaluate": "Test the simulators on recorded step times.",
}
"""Each subcommand with its sentence in `python -m studies --help`."""


@click.group("studies", cls=LazyGroup, package=__name__, sentences=COMMANDS, context_settings=SETTINGS)
def command() -> None:
    """Experiments on autosync itself, which run in a checkout of the project."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m studies` with `arguments`, by default those of the process; return the exit status."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    try:
        check_path()
        check_folders([Path.cwd()])
    except AutosyncError as error:
        say(f"studies: {error}", err=True)
        return REFUSED
    if name not in COMMANDS:
        return run_command(command, arguments, program="python -m studies")
    if arguments is None:
        sys.argv[1:] = rest
    status: int = import_module(f"{__name__}.{name}").main(rest)
    return status
