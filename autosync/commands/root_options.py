"""The options of `autosync` itself: `--version` and `--show-completion`."""

import platform
from importlib.metadata import PackageNotFoundError, version

import click
from click.shell_completion import get_completion_class

from autosync.terminal import emit, say
from autosync.version import VERSION

COMPLETION = "_AUTOSYNC_COMPLETE"
"""The variable with which a shell requests completions."""

SHELLS = ("bash", "zsh", "fish")

PACKAGES = ("ray", "torch", "tensorflow", "keras")
"""Packages whose versions decide how trials run; TensorFlow and Keras are optional."""


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    say(f"autosync, version {VERSION}")
    say(", ".join([f"Python {platform.python_version()}", *(f"{name} {_version_of(name)}" for name in PACKAGES)]))
    context.exit()


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"


def _show_completion(context: click.Context, _option: click.Parameter, shell: str | None) -> None:
    if shell is None or context.resilient_parsing:
        return
    completion = get_completion_class(shell)
    assert completion is not None, "one of Click's shells"
    emit(completion(context.command, {}, "autosync", COMPLETION).source(), nl=False)
    context.exit()


version_option = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the versions of autosync, Python and the frameworks, and exit.",
)

completion_option = click.option(
    "--show-completion",
    type=click.Choice([*SHELLS]),
    is_eager=True,
    expose_value=False,
    callback=_show_completion,
    help="Print a script that makes a shell complete commands, options and names, and exit; see docs/command-line.md.",
)
