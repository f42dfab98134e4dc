"""Quotes values from outside in messages, cut to at most a line."""

import unicodedata
from collections.abc import Collection
from typing import Any

MOST_QUOTED = 80


def quote(value: Any) -> str:
    """`repr(value)`, cut to 80 characters."""
    try:
        return cut(repr(value))
    except ValueError:  # Python writes no int of more than 4300 digits
        return "a number of thousands of digits"


def cut(text: str) -> str:
    """`text` on one line, cut to 80 characters; line breaks become spaces."""
    whole = " ".join(text[: 4 * MOST_QUOTED].split())
    return whole if len(whole) <= MOST_QUOTED and len(text) <= 4 * MOST_QUOTED else f"{whole[: MOST_QUOTED - 3]}..."


MOST_SAID = 300
"""The most characters of an error's message that a sentence quotes."""


def said(error: BaseException) -> str:
    """The message of `error` on one line, cut to 300 characters; the name of its class if the message is empty."""
    try:
        text = str(error)
    except Exception:  # the class is not ours, so its `__str__` may raise any error
        text = "a message that cannot be printed"
    line = printable(" ".join(text[: 20 * MOST_SAID].split())) or type(error).__name__
    return line if len(line) <= MOST_SAID and len(text) <= 20 * MOST_SAID else f"{line[: MOST_SAID - 3]}..."


def printable(text: str) -> str:
    """`text` with control characters, lone surrogates and marks that reorder text written as escapes such as \\x1b."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(character if _is_plain(character) else _escape(character) for character in text)


def _is_plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shorten_list(names: Collection[Any]) -> str:
    """The first of `names` that fit into 80 characters, and the number of further names; "none" if `names` is empty."""
    shown: list[str] = []
    left = MOST_QUOTED
    for name in names:
        text = cut(str(name))
        left -= len(text) + 2
        if shown and left < 0:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(text)
    return ", ".join(shown) or "none"
