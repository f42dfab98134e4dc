"""The option `--capture-time-limit` of every command that captures a model."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from trials.capture_in_subprocess import CAPTURE_SECONDS, MOST_CAPTURE_SECONDS

Command = TypeVar("Command", bound=Callable[..., Any])


def _seconds(_context: click.Context, _option: click.Parameter, seconds: float) -> float:
    if not 0 < seconds <= MOST_CAPTURE_SECONDS:  # the comparison also rejects NaN
        raise click.BadParameter(
            f"seconds must be over 0 and at most {MOST_CAPTURE_SECONDS:.0f}, not {seconds:g}; leave it out for "
            f"{CAPTURE_SECONDS:g}."
        )
    return seconds


def capture_time_limit(command: Command) -> Command:
    """Add the option to a click command, as its parameter `capture_seconds`."""
    return click.option(
        "--capture-time-limit",
        "capture_seconds",
        default=CAPTURE_SECONDS,
        show_default=True,
        callback=_seconds,
        help="Seconds that building and capturing the model may take.",
    )(command)
