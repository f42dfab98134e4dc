"""The command `autosync` and its subcommands, a file each."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from autosync.commands.shell import REFUSED, SETTINGS, run_command
from autosync.errors import AutosyncError
from autosync.shadows import check_folders, check_path
from autosync.terminal import say
from autosync.version import VERSION

__all__ = ["COMMANDS", "command", "main"]

COMMANDS = {
    "tune": "Find the fastest gradient-synchronization strategy for a model on this cluster.",
    "train": "Train a model under a strategy.",
    "explain": "Say what a strategy does, what it costs, and which baseline it is nearest to.",
    "report": "Write the report of a run again, or a page that compares several.",
    "runs": "Look at runs: list, show, best, export.",
    "trial": "Time one strategy by hand.",
    "profile": "Measure what a model's passes take on a GPU, for paced nodes to play.",
    "cluster": "Check, show and convert cluster files.",
    "emulate": "Make, use, break and remove a cluster emulated on this machine.",
    "collect": "Collect real runtimes on emulated clusters.",
    "bench": "Benchmark searches, on records or live.",
    "evaluate": "Test the simulators on recorded step times.",
    "pretrain": "Fit a simulator on recorded step times, for searches to start from.",
    "import": "Turn the public AutoSync dataset into records of this program.",
}
"""Every subcommand, with a sentence for `autosync --help`."""

STARTS_WORKERS = ("tune", "train", "trial", "collect", "bench", "evaluate", "pretrain")
"""Subcommands whose workers import from the working directory first, even where this process does not."""

MODULES = {"import": "import_dataset"}
"""Modules that cannot have their command's name."""

COMPLETION = "_AUTOSYNC_COMPLETE"
"""A shell asks for completions by this variable: `eval "$(_AUTOSYNC_COMPLETE=bash_source autosync)"`."""


class _Subcommands(click.Group):
    """Subcommands are imported when they are asked for, since some load much."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's own signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        found: click.Command = import_module(_module(name)).command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group("autosync", cls=_Subcommands, context_settings=SETTINGS)
@click.version_option(VERSION, prog_name="autosync")
def command() -> None:
    """Choose how data-parallel training synchronizes its gradients, by measuring."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `autosync` with `arguments`, by default the process's own; its exit status."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    try:
        check_path()
        if name in STARTS_WORKERS:
            check_folders([Path.cwd()])
    except AutosyncError as error:
        say(f"autosync: {error}", err=True)
        return REFUSED
    if name not in COMMANDS or COMPLETION in os.environ:
        return run_command(command, arguments)
    if arguments is None:
        sys.argv[1:] = rest  # a search records its own arguments
    status: int = import_module(_module(name)).main(rest)
    return status


def _module(name: str) -> str:
    return f"{__name__}.{MODULES.get(name, name)}"
