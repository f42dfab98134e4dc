"""Output for people: the only place where text reaches a terminal, cleaned and wrapped between words."""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, final

import click
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment
from rich.text import Text

from autosync.spec.quoting import printable

UNLIMITED = 100_000
"""Columns where output does not go to a terminal: programs read it, so nothing is wrapped."""


BROKEN_PIPE = 141
"""Exit status after the reader of stdout has gone, as shells have it for SIGPIPE."""


def columns(is_terminal: bool) -> int:
    """The width of output in columns; the variable COLUMNS counts for pipes too."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isascii() and stated.isdigit() and 0 < int(stated[:6]) < UNLIMITED:
        return int(stated[:6])
    return max(shutil.get_terminal_size().columns, 1) if is_terminal else UNLIMITED


def say(text: str = "", err: bool = False, nl: bool = True) -> None:
    """Print `text`, which may hold anything that a file said."""
    stream = sys.stderr if err else sys.stdout
    click.echo(wrapped(printable(text), columns(stream is not None and stream.isatty())), err=err, nl=nl)


def wrapped(text: str, width: int) -> str:
    """`text` with lines of at most `width` columns, broken between words only. Commands to copy stay on one line."""
    return "\n".join(part for line in text.split("\n") for part in _wrapped_line(line, width))


def _wrapped_line(line: str, width: int) -> list[str]:
    if len(line) <= width or ": autosync " in line or ":  autosync " in line or " && autosync " in line:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    parts = textwrap.wrap(
        line,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        expand_tabs=False,
    )
    return parts or [line]


@final
class _Cleaning(RenderHook):
    """Escapes control characters in all that a console prints; the console's own colours and cursor moves stay."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Cleaned(renderable) for renderable in renderables]


@final
class _Cleaned:
    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


@final
class Terminal(Console):
    """A console for plain text. Brackets and colons in names are no markup, and numbers have no colours."""

    def __init__(self, **options: Any) -> None:
        stream = options.get("file") or sys.stdout
        width = columns(bool(stream.isatty() or options.get("force_terminal")))
        super().__init__(**{"width": width, "highlight": False, "markup": False, "emoji": False, **options})
        self.push_render_hook(_Cleaning())

    def on_broken_pipe(self) -> None:
        _discard()
        raise SystemExit(BROKEN_PIPE)

    def print(self, *objects: Any, soft_wrap: bool | None = None, style: Any = None, **options: Any) -> None:
        """Print as `Console.print` does; sentences are wrapped between words, and words are never cut."""
        if all(isinstance(part, str) for part in objects) and objects:
            text = wrapped(printable(" ".join(objects)), self.width)
            super().print(Text(text, end=""), style=style, soft_wrap=True, **options)
        else:
            super().print(*objects, soft_wrap=soft_wrap, style=style, **{"crop": False, **options})


def emit(text: str, err: bool = False, nl: bool = True) -> None:
    """Print `text` for programs: cleaned, and never wrapped."""
    click.echo(printable(text), err=err, nl=nl)


def prepare_streams() -> None:
    """Let any text be printed: escaped where the encoding lacks a character, and dropped where a stream is closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the rest of the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Write out stdout. Ends the process quietly if its reader has gone; raises `OSError` if the disk is full."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard()
        raise SystemExit(BROKEN_PIPE) from None
    except OSError:
        _discard()
        raise


def _discard() -> None:
    """Let the interpreter's last flush succeed."""
    with suppress(OSError, ValueError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)
