"""Output for people: the only place where text reaches a terminal, cleaned and wrapped between words."""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO, TypeAlias, final

import click
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment
from rich.text import Text

from autosync.spec.quoting import printable

UNLIMITED = 100_000
"""The width of output that does not go to a terminal. Programs may read it, so nothing is wrapped."""


BROKEN_PIPE = 141
"""Exit status if the reader of stdout has closed the pipe, the same as shells use for SIGPIPE."""


def columns(is_terminal: bool) -> int:
    """The width of output in columns. The environment variable COLUMNS applies to pipes, too."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isascii() and stated.isdigit() and 0 < int(stated[:6]) < UNLIMITED:
        return int(stated[:6])
    return max(shutil.get_terminal_size().columns, 1) if is_terminal else UNLIMITED


def say(text: str = "", err: bool = False, nl: bool = True) -> None:
    """Print `text`, which may contain arbitrary text from files, for people: cleaned and wrapped."""
    stream = sys.stderr if err else sys.stdout
    click.echo(wrap(printable(text), columns(stream is not None and stream.isatty())), err=err, nl=nl)


def wrap(text: str, width: int) -> str:
    """`text` with lines of at most `width` columns, broken between words only. Commands to copy stay on one line."""
    return "\n".join(part for line in text.split("\n") for part in _wrap_line(line, width))


def _wrap_line(line: str, width: int) -> list[str]:
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
    """Escapes control characters in everything that a console prints, except the console's own colours and cursor
    moves."""

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
    """A console for plain text, which interprets no brackets or colons as markup and does not colour numbers."""

    def __init__(self, **options: Any) -> None:
        stream = options.get("file") or sys.stdout
        width = columns(bool(stream.isatty() or options.get("force_terminal")))
        super().__init__(**{"width": width, "highlight": False, "markup": False, "emoji": False, **options})
        self.push_render_hook(_Cleaning())

    def on_broken_pipe(self) -> None:
        _discard(sys.stdout)
        raise SystemExit(BROKEN_PIPE)

    def print(self, *objects: Any, soft_wrap: bool | None = None, style: Any = None, **options: Any) -> None:
        """Print as `Console.print` does; sentences are wrapped between words, and words are never cut."""
        if all(isinstance(part, str) for part in objects) and objects:
            text = wrap(printable(" ".join(objects)), self.width)
            super().print(Text(text, end=""), style=style, soft_wrap=True, **options)
        else:
            super().print(*objects, soft_wrap=soft_wrap, style=style, **{"crop": False, **options})


def emit(text: str, err: bool = False, nl: bool = True) -> None:
    """Print `text` for programs: cleaned, and never wrapped."""
    click.echo(printable(text), err=err, nl=nl)


Report: TypeAlias = Callable[[Any], None]
"""Writes a JSON document, such as an event, for programs."""


def no_report(document: Any) -> None:
    """A `Report` for people only, which writes nothing."""


@contextmanager
def json_on_stdout() -> Iterator[Report]:
    """Yield a function that writes a document as a line of JSON to stdout.

    In the block, everything else that Python prints to stdout goes to stderr.
    """
    stream = sys.stdout

    def write(document: Any) -> None:
        try:
            click.echo(json.dumps(_finite(document), allow_nan=False), file=stream)
        except BrokenPipeError:
            _discard(stream)
            raise SystemExit(BROKEN_PIPE) from None

    with redirect_stdout(sys.stderr):
        yield write


def _finite(document: Any) -> Any:
    """`document` with null for numbers that JSON does not have: infinity and NaN, such as the loss of a training that
    diverges.
    """
    if isinstance(document, float) and not math.isfinite(document):
        return None
    if isinstance(document, Mapping):
        return {name: _finite(value) for name, value in document.items()}
    return [_finite(value) for value in document] if isinstance(document, list | tuple) else document


def prepare_streams() -> None:
    """Make all text printable: characters that the encoding lacks are escaped; text to a closed stream is dropped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the rest of the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Flush stdout. End the process quietly if the reader has closed the pipe; raise `OSError` if the disk is full."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)
        raise SystemExit(BROKEN_PIPE) from None
    except OSError:
        _discard(sys.stdout)
        raise


def _discard(stream: TextIO) -> None:
    """Redirect `stream` to the null device, so that the interpreter's last flush succeeds."""
    with suppress(OSError, ValueError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)
