"""What a message shows of a value that came from outside: never more than a line of it."""

import unicodedata
from collections.abc import Collection
from typing import Any

MOST_QUOTED = 80


def quoted(value: Any) -> str:
    """`repr(value)` where it has at most 80 characters, else its beginning."""
    try:
        return cut(repr(value))
    except ValueError:  # Python writes no int of more than 4300 digits
        return "a number of thousands of digits"


def cut(text: str) -> str:
    """`text` where it has at most 80 characters, else its beginning; line breaks, which a sentence has none of, become
    spaces."""
    whole = " ".join(text[: 4 * MOST_QUOTED].split())
    return whole if len(whole) <= MOST_QUOTED and len(text) <= 4 * MOST_QUOTED else f"{whole[: MOST_QUOTED - 3]}..."


MOST_SAID = 300
"""Characters of an error's own message that a sentence quotes."""


def said(error: BaseException) -> str:
    """The message of `error` on one line, cut to 300 characters, or the name of its class without one."""
    try:
        text = str(error)
    except Exception:  # any error of a class that is not ours
        text = "a message that cannot be printed"
    line = printable(" ".join(text[: 20 * MOST_SAID].split())) or type(error).__name__
    return line if len(line) <= MOST_SAID and len(text) <= 20 * MOST_SAID else f"{line[: MOST_SAID - 3]}..."


def printable(text: str) -> str:
    """`text` with control characters, lone surrogates and marks that reorder text written as escapes such as \\x1b."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(character if _is_plain(character) else _escaped(character) for character in text)


def _is_plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def listed(names: Collection[Any]) -> str:
    """The first of `names` that have room in 80 characters, and how many more there are; "none" without any."""
    shown: list[str] = []
    left = MOST_QUOTED
    for name in names:
        text = cut(str(name))
        left -= len(text) + 2
        if shown and left < 0:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(text)
    return ", ".join(shown) or "none"
