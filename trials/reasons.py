"""Why a trial failed: what is worth telling in an exception's message, as one sentence."""

from __future__ import annotations

import re

__all__ = ["reason_of"]

LONGEST = 300

_EMPTY_TALK = re.compile(
    r"""Graph\ execution\ error:$     # TensorFlow opens with where an error was met, which for a function
    |Detected\ at\ node\b            # made from a graph is a name nobody gave
    |File\ "|<stack\ traces\ unavailable>
    |\d+\ root\ error\(s\)\ found""",
    re.VERBOSE,
)
_ROOT = re.compile(r"\(\d+\) (?P<code>[A-Z_]+): +(?P<message>.*)")
_DECORATION = re.compile(r"\{\{function_node [^}]*\}\} ?| *\[Op:[^\]]*\].*$")


def reason_of(error: BaseException) -> str:
    """The error's kind and what it says, in one line short enough for a table.

    Of several root errors that TensorFlow lists, that is the first that is not the cancelling which follows another.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not _EMPTY_TALK.match(line)]
    message = _first_root(telling) or (telling[0] if telling else "no message")
    return f"{type(error).__name__}: {_DECORATION.sub('', message)[:LONGEST]}"


def _first_root(lines: list[str]) -> str:
    roots = [found for line in lines if (found := _ROOT.match(line))]
    causes = [root for root in roots if root["code"] != "CANCELLED"] or roots
    return causes[0]["message"] if causes else ""
