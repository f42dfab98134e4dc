"""The option `--capture-time-limit`, which every command that captures a model has."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from autosync.engine.capture_apart import CAPTURE_SECONDS, MOST_CAPTURE_SECONDS

Command = TypeVar("Command", bound=Callable[..., Any])


def _seconds(_context: click.Context, _option: click.Parameter, given: float) -> float:
    if not 0 < given <= MOST_CAPTURE_SECONDS:  # nor not a number
        raise click.BadParameter(
            f"seconds must be over 0 and at most {MOST_CAPTURE_SECONDS:.0f}, not {given:g}; leave it out for "
            f"{CAPTURE_SECONDS:g}."
        )
    return given


def capture_time_limit(command: Command) -> Command:
    """Give a click command the option, as its parameter `capture_seconds`."""
    return click.option(
        "--capture-time-limit",
        "capture_seconds",
        default=CAPTURE_SECONDS,
        show_default=True,
        callback=_seconds,
        help="Seconds that building and capturing the model may take.",
    )(command)
