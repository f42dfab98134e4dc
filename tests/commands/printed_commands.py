"""Commands that a page, a terminal or a docs page prints, parsed by the program itself."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Iterator, Sequence

import click

from autosync.commands import command as root


def commands_in(text: str) -> Iterator[str]:
    """The commands in `text`, one per line that begins with one; `\\` joins lines, ` #` and ` >` end a command."""
    for line in text.replace("\\\n", " ").splitlines():
        stripped = line.strip()
        if stripped.startswith("autosync ") and line != stripped:
            yield re.split("  #| > ", stripped)[0].strip()


def commands_on(page: str) -> list[str]:
    """The commands on a report's HTML page."""
    return [html.unescape(re.sub("<[^>]*>", "", code)) for code in re.findall("<code>(.*?)</code>", page)]


def check_command(line: str) -> list[str]:
    """The subcommands that `line` runs. Raises `click.ClickException` if one of them does not parse."""
    return [called for part in line.split(" && ") for called in _check(shlex.split(part))]


def _check(words: Sequence[str]) -> list[str]:
    if words[0] == "cd":
        return []
    assert words[0] == "autosync", words
    command: click.Command = root
    arguments, called = list(words[1:]), ""
    while isinstance(command, click.Group):
        if arguments in (["--version"], ["--help"]):
            return [called]
        name, subcommand, arguments = command.resolve_command(click.Context(command), arguments)
        assert subcommand is not None
        command, called = subcommand, f"{called} {name}".strip()
    try:
        context = command.make_context(called, arguments)
    except click.exceptions.Exit:  # --help
        return [called]
    inner = context.params.get("argv")
    return [called, *(_check(inner) if inner else [])]
