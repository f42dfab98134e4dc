"""The frame of every command: how it refuses, and its exit statuses."""

import os
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, final

import click

from autosync.errors import AutosyncError
from autosync.spec import cut
from autosync.terminal import emit, flush, prepare_streams, say

NOT_DONE = 1
"""Exit status of a command that ended before its work was done."""

REFUSED = 2
"""Exit status of a command with invalid arguments."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""

FAULT = 70
"""Exit status after a bug of autosync itself, as in sysexits.h."""

LONGEST = 4000
"""The maximum number of characters of a refusal."""

SETTINGS = {"show_default": True, "max_content_width": 110}
"""Click's settings for the help of every command."""

GOES_ON = "Interrupted; all results so far are kept, and the same command continues."

RAYS_OWN_NEWS = (
    "A worker died or was killed while executing a task|has been marked dead because the detector has missed"
)
"""The beginnings of long messages that Ray prints about a dead process, or a node that does not answer."""


@final
class LazyGroup(click.Group):
    """A group whose subcommands are imported only when they are used, because some load large packages."""

    def __init__(
        self,
        *arguments: Any,
        package: str,
        sentences: Mapping[str, str],
        modules: Mapping[str, str] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        """The subcommand NAME is `command` in the module `modules[NAME]`, by default NAME, of `package`.

        `sentences` has a sentence per subcommand, for the help.
        """
        super().__init__(*arguments, **options)
        self._package, self._sentences, self._modules = package, sentences, modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's own signature
        return list(self._sentences)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in self._sentences:
            return None
        subcommand: click.Command = import_module(f"{self._package}.{self._modules.get(name, name)}").command
        return subcommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # Click suggests names among imported commands only
            raise click.NoSuchCommand(error.command_name, possibilities=self._sentences, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(self._sentences.items()))


def run_command(
    command: click.Command,
    arguments: Sequence[str] | None = None,
    interrupted: str = "",
    obj: Any = None,
    program: str | None = None,
) -> int:
    """Run `command`, of `program` (None: `autosync`), and return its exit status. A refusal is one sentence on stderr.

    After Ctrl-C, `interrupted` is printed, if not empty. SIGTERM and SIGHUP have the same effect, with the exit status
    that shells give to a process ended by the signal. `obj` is the object of click's context.
    """
    from trials.signals import requests_end_as_ctrl_c  # after `check_path`: a user's trials.py may hide the package

    with requests_end_as_ctrl_c() as ending:
        name = command.name or ""
        program = program or ("autosync" if name == "autosync" else f"autosync {name}")
        return ending.status(_status_of(command, arguments, interrupted, obj, program), INTERRUPTED)


def _status_of(
    command: click.Command, arguments: Sequence[str] | None, interrupted: str, obj: Any, program: str
) -> int:
    name = command.name or ""
    prepare_streams()
    try:
        status = int(command.main(arguments, prog_name=program, standalone_mode=False, obj=obj) or 0)
        flush()
        return status
    except click.ClickException as error:
        sentence = error.format_message()
        if isinstance(command, click.Group) and sentence.startswith(
            "Usage: "
        ):  # no subcommand was given, so the message is the help
            emit(sentence, err=True)
            return REFUSED
    except AutosyncError as error:
        sentence = str(error)
    except (click.Abort, KeyboardInterrupt):
        if interrupted:
            say(interrupted, err=True)
        return INTERRUPTED
    except SystemExit as end:  # the reader of the pipe has gone
        return end.code if isinstance(end.code, int) else NOT_DONE
    except OSError as error:
        sentence = _file_sentence(error)
    except Exception as error:
        say(f"{name}: {_bug_sentence(error)}", err=True)
        return FAULT
    say(f"{name}: {_shorten(sentence)}", err=True)
    return REFUSED


def _shorten(sentence: str) -> str:
    """Shorten a sentence to some lines of the terminal, because it may quote megabytes of another program's output."""
    more = len(sentence) - LONGEST
    return sentence if more <= 0 else f"{sentence[:LONGEST]} ... ({more} more characters)"


def _file_sentence(error: OSError) -> str:
    """The sentence for a file error that no other code has handled: a name too long, a missing right, a full disk."""
    named = cut(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else "A file"
    return f"{named} cannot be used: {error.strerror or error}; name another file, or repair this one."


def _bug_sentence(error: Exception) -> str:
    """The sentence for an exception that only a bug of autosync raises; writes the traceback to a file."""
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
    """Keep Ray, which reads this variable when it is imported, from printing messages that commands replace by a
    sentence.
    """
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", RAYS_OWN_NEWS)


def names_in(text: str) -> list[str]:
    """The names in `text`, separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
