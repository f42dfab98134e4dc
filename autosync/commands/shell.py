"""What all commands have in common: how they refuse, and their exit statuses."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, final

import click

from autosync.errors import AutosyncError, SpecError
from autosync.spec.address import Address, Place, place_of

NOT_DONE = 1
"""Exit status of a command that ended before all was done."""

REFUSED = 2
"""Exit status of a command that was asked wrongly."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

SETTINGS = {"show_default": True, "max_content_width": 110}
"""Click's settings of every command, which shape its help."""

GOES_ON = "Interrupted; every result so far is kept, and the same command goes on."

RAYS_OWN_NEWS = (
    "A worker died or was killed while executing a task|has been marked dead because the detector has missed"
)
"""What Ray prints, at length, of a process that has died, or of a node that does not answer."""


@final
class PlaceType(click.ParamType):  # type: ignore[type-arg]  # only newer ones are generic
    """A folder of records: a path, or an address such as s3://bucket/records."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        if isinstance(value, Path | Address):
            return value
        try:
            return place_of(value)
        except SpecError as error:
            self.fail(str(error), param, ctx)


PLACE = PlaceType()


def run_command(
    command: click.Command, arguments: Sequence[str] | None = None, interrupted: str = "", obj: Any = None
) -> int:
    """Run `command`; its exit status. What was asked wrongly is one sentence on stderr.

    After Ctrl-C it says `interrupted`, if anything. `obj` is the object of click's context.
    """
    name = command.name or ""
    program = name if name == "autosync" else f"autosync {name}"
    try:
        return int(command.main(arguments, prog_name=program, standalone_mode=False, obj=obj) or 0)
    except click.ClickException as error:
        sentence = error.format_message()
        if isinstance(command, click.Group) and sentence.startswith("Usage: "):  # nothing was asked: this is the help
            click.echo(sentence, err=True)
            return REFUSED
    except AutosyncError as error:
        sentence = str(error)
    except (click.Abort, KeyboardInterrupt):
        if interrupted:
            click.echo(interrupted, err=True)
        return INTERRUPTED
    click.echo(f"{name}: {sentence}", err=True)
    return REFUSED


def without_rays_own_news() -> None:
    """Keep Ray, which reads this when it is imported, from printing what commands tell in a sentence."""
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", RAYS_OWN_NEWS)


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def names_in(text: str) -> list[str]:
    """The names in `text`, which has commas between them."""
    return [each.strip() for each in text.split(",") if each.strip()]
