"""The command `autosync` and its subcommands, one file each."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from autosync.commands.root_options import COMPLETION, completion_option, version_option
from autosync.commands.shell import REFUSED, SETTINGS, LazyGroup, run_command
from autosync.errors import AutosyncError
from autosync.shadows import check_folders, check_path
from autosync.terminal import say

__all__ = ["COMMANDS", "command", "main"]

COMMANDS = {
    "tune": "Find the fastest gradient-synchronization strategy for a model on this cluster.",
    "race": "Compare disciplines by their time to a target: cut-offs, local SGD, compression, loads.",
    "train": "Train a model under a strategy.",
    "explain": "Explain a strategy: its decisions, its costs, and the nearest baseline.",
    "export": "Write a strategy as a file of plain PyTorch for DistributedDataParallel.",
    "report": "Write the report of a run again, or a page that compares several runs.",
    "runs": "Look at runs: list, show, best, export.",
    "trial": "Time one strategy by hand.",
    "profile": "Measure the duration of a model's passes on a GPU, for paced nodes.",
    "cluster": "Check, show and convert cluster files.",
    "emulate": "Make, use, break and remove a cluster emulated on this machine.",
    "replay": "Search recorded trials instead of a cluster.",
    "pretrain": "Fit a simulator on recorded step times, as a starting point for searches.",
    "import": "Turn the public AutoSync dataset into records of this program.",
}
"""Every subcommand, with a sentence for `autosync --help`."""

STARTS_WORKERS = ("tune", "race", "train", "trial", "pretrain")
"""Subcommands whose workers import from the working directory first, even if this process does not."""

STUDIES = ("bench", "collect", "evaluate")
"""Subcommands of `python -m studies` that were part of `autosync` before."""

MODULES = {"import": "import_dataset"}
"""Modules of subcommands whose name is no valid module name."""


@click.group(
    "autosync", cls=LazyGroup, package=__name__, sentences=COMMANDS, modules=MODULES, context_settings=SETTINGS
)
@version_option
@completion_option
def command() -> None:
    """Choose how data-parallel training synchronizes its gradients, by measuring."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `autosync` with `arguments`, by default the process's own; return the exit status."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    try:
        check_path()
        if name in STARTS_WORKERS:
            check_folders([Path.cwd()])
    except AutosyncError as error:
        say(f"autosync: {error}", err=True)
        return REFUSED
    if name in STUDIES:
        say(
            f"autosync: `autosync {name}` is a study of autosync itself and not installed with it; in a checkout of "
            f"the project, run `python -m studies {name}`.",
            err=True,
        )
        return REFUSED
    if name not in COMMANDS or COMPLETION in os.environ:
        return run_command(command, arguments)
    if arguments is None:
        sys.argv[1:] = rest  # a search records its own arguments
    status: int = import_module(f"{__name__}.{MODULES.get(name, name)}").main(rest)
    return status
