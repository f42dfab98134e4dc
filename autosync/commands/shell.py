"""The frame of every command: how it refuses, and its exit statuses."""

import os
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import click

from autosync.errors import AutosyncError, SpecError
from autosync.spec import cut
from autosync.spec.address import Address, Place, place_of
from autosync.terminal import emit, flush, prepare_streams, say

NOT_DONE = 1
"""Exit status of a command that ended before all was done."""

REFUSED = 2
"""Exit status of a command that was asked wrongly."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

FAULT = 70
"""Exit status after a bug of autosync itself, as sysexits.h has it."""

LONGEST = 4000
"""The most characters of a refusal."""

SETTINGS = {"show_default": True, "max_content_width": 110}
"""Click's settings of every command, which shape its help."""

GOES_ON = "Interrupted; every result so far is kept, and the same command goes on."

RAYS_OWN_NEWS = (
    "A worker died or was killed while executing a task|has been marked dead because the detector has missed"
)
"""The beginning of the long messages that Ray prints about a dead process, or a node that does not answer."""


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
    """Run `command` and return its exit status. A refusal is one sentence on stderr.

    After Ctrl-C it says `interrupted`, if anything. SIGTERM and SIGHUP do the same, and have the exit status that
    shells give to a process that they end. `obj` is the object of click's context.
    """
    from trials.signals import requests_end_as_ctrl_c  # after `check_path`: a user's trials.py may hide the package

    with requests_end_as_ctrl_c() as ending:
        return ending.status(_ran(command, arguments, interrupted, obj), INTERRUPTED)


def _ran(command: click.Command, arguments: Sequence[str] | None, interrupted: str, obj: Any) -> int:
    name = command.name or ""
    program = name if name == "autosync" else f"autosync {name}"
    prepare_streams()
    try:
        status = int(command.main(arguments, prog_name=program, standalone_mode=False, obj=obj) or 0)
        flush()
        return status
    except click.ClickException as error:
        sentence = error.format_message()
        if isinstance(command, click.Group) and sentence.startswith("Usage: "):  # nothing was asked: this is the help
            emit(sentence, err=True)
            return REFUSED
    except AutosyncError as error:
        sentence = str(error)
    except (click.Abort, KeyboardInterrupt):
        if interrupted:
            say(interrupted, err=True)
        return INTERRUPTED
    except SystemExit as end:  # the reader of a pipe has gone
        return end.code if isinstance(end.code, int) else NOT_DONE
    except OSError as error:
        sentence = _of_a_file(error)
    except Exception as error:
        say(f"{name}: {_of_a_bug(error)}", err=True)
        return FAULT
    say(f"{name}: {_bounded(sentence)}", err=True)
    return REFUSED


def _bounded(sentence: str) -> str:
    """At most some lines of the terminal: a sentence may quote megabytes that another program has said."""
    more = len(sentence) - LONGEST
    return sentence if more <= 0 else f"{sentence[:LONGEST]} ... ({more} more characters)"


def _of_a_file(error: OSError) -> str:
    """The sentence for a file that no other place has refused: a name too long, a missing right, a full disk."""
    named = cut(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else "A file"
    return f"{named} cannot be used: {error.strerror or error}; name another, or mend it."


def _of_a_bug(error: Exception) -> str:
    """The sentence for an exception that only a bug of autosync raises; the traceback goes into a file."""
    text = "".join(traceback.format_exception(error))
    said = f"This is a bug of autosync, {type(error).__name__}: {cut(str(error))}."
    try:
        handle, file = tempfile.mkstemp(prefix="autosync-bug-", suffix=".txt")
        with open(handle, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
    except OSError:
        return f"{said} Please report it."
    return f"{said} Please report it with {file}, which has the traceback."


def without_rays_own_news() -> None:
    """Keep Ray, which reads this when it is imported, from printing messages that commands replace by a sentence."""
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", RAYS_OWN_NEWS)


def names_in(text: str) -> list[str]:
    """The names in `text`, which has commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]
