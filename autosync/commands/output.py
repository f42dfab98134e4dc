"""The options `--json`, `--quiet` and `--verbose`, which choose the output of a command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click
import cloup

from autosync.commands.shell import without_rays_own_news
from autosync.terminal import Report, json_on_stdout, no_report

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Output:
    """The output that the user wants."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False

    @contextmanager
    def channel(self) -> Iterator[Report]:
        """Yield a function that writes JSON; without `--json`, it writes nothing.

        With `--json`, messages for people go to stderr in the block.
        """
        if not self.verbose:
            without_rays_own_news()
        if not self.as_json:
            yield no_report
            return
        with json_on_stdout() as report:
            yield report


FOR_PEOPLE = Output()
"""The output of a command without any of the options."""


def output_options(json_help: str) -> Callable[[Function], Callable[..., Any]]:
    """Add the three options to a command, as its parameter `output`."""

    def decorate(function: Function) -> Callable[..., Any]:
        @wraps(function)
        def run(*arguments: Any, as_json: bool, quiet: bool, verbose: bool, **options: Any) -> Any:
            if quiet and verbose:
                raise click.UsageError("--quiet and --verbose exclude each other; leave one of them out.")
            return function(*arguments, output=Output(as_json, quiet, verbose), **options)

        return cloup.option_group(
            "Output",
            json_option(json_help),
            click.option("--quiet", is_flag=True, help="Print the outcome and errors only."),
            click.option(
                "--verbose", is_flag=True, help="Print details, too, and messages of Ray that are otherwise left out."
            ),
        )(run)

    return decorate


def json_option(about: str) -> Callable[[Function], Function]:
    return click.option("--json", "as_json", is_flag=True, help=about)
