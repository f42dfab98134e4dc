"""Reads JSON from outside within limits: any file takes seconds, and gives a document or an error in a sentence."""

import json
import math
import re
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from autosync.errors import SpecError
from autosync.files import open_to_read
from autosync.spec.quoting import cut, quote


@dataclass(frozen=True)
class ReadLimits:
    """The largest document that is read."""

    size: int
    """Bytes."""
    values: int
    """Strings, or all values separated by commas and brackets, whichever are more."""
    depth: int = 64
    """Nested brackets."""
    digits: int = 64
    """Digits in a row."""


DOCUMENT = ReadLimits(size=16 << 20, values=1_000_000)
"""Limits of a strategy, a cluster or a result. The strategy of a model with five thousand variables has 1 MB."""

STATE = ReadLimits(size=128 << 20, values=5_000_000)
"""Limits of a search's state, which holds every record with its strategy. A thousand trials of a model with five
hundred variables have 25 MB and three million values."""

BEYOND_FLOAT = re.compile(r"[eE]\+?\d{3}")
"""Matches every number that Python could read as an infinity: its exponent has three digits or more."""

LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(
    file: Path, what: str, finite: bool = True, limits: ReadLimits = DOCUMENT, through_links: bool = True
) -> dict[str, Any]:
    """Return the JSON object in `file`; see `parse_json`. Raises `SpecError`, and `OSError` as `read_bytes` does."""
    return parse_json(read_bytes(file, what, limits.size, through_links), what, finite, limits)


def read_bytes(file: Path, what: str, most: int = DOCUMENT.size, through_links: bool = True) -> bytes:
    """Return the content of a regular file, at most `most` bytes; `through_links=False` refuses a link.

    Raises `SpecError` if the file is larger, and `OSError` if it is missing, no regular file or a refused link.
    """
    with open_to_read(file, through_links=through_links) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise SpecError(f"{what} must have at most {_mebibytes(most)}, but has more; name another file.")
    return data


def parse_json(text: str | bytes, what: str, finite: bool = True, limits: ReadLimits = DOCUMENT) -> dict[str, Any]:
    """Return the JSON object in `text`; `what` names the document in errors.

    Raises `SpecError` if `text` is not JSON, repeats a key in an object, or exceeds `limits`. If `finite`, NaN and
    infinities are errors too: JSON does not have them, but Python writes them.
    """
    if len(text) > limits.size:
        raise SpecError(f"{what} must have at most {_mebibytes(limits.size)}, but has more.")
    try:
        written = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
        if fault := _beyond(written, limits):
            raise SpecError(f"{what} {fault}")
        document = json.loads(
            written,
            object_pairs_hook=_object,
            parse_float=_finite if finite and BEYOND_FLOAT.search(written) else None,
            parse_constant=_finite if finite else None,
        )
    except SpecError:
        raise
    except ValueError as error:
        raise SpecError(f"{what} must be JSON, but: {error}.") from None
    if not isinstance(document, dict):
        raise SpecError(f"{what} must be a JSON object, not {type(document).__name__}.")
    if LONE_SURROGATE.search(written) and not _is_unicode(document):
        raise SpecError(f"{what} must be of Unicode characters, but escapes half of one (a lone surrogate).")
    return document


def _beyond(text: str, limits: ReadLimits) -> str:
    """How `text` exceeds `limits`; empty if it does not. The check runs before any object is built.

    Strings and brackets are counted as in JSON up to the first syntax error; a parser stops there, too.
    """
    strings = text.count('"') // 2
    outside = "".join(text.replace(r"\\", "").replace(r"\"", "").split('"')[::2]) if strings <= limits.values else ""
    values = max(strings, 1 + sum(map(outside.count, ",[{")))
    if values > limits.values:
        return f"must have at most {limits.values} values, but has about {values}."
    steps = (1 if bracket in "[{" else -1 for bracket in re.findall(r"[][{}]", outside))
    if (depth := max(accumulate(steps), default=0)) > limits.depth:
        return f"must have at most {limits.depth} nested brackets, but has {depth}."
    if digits := re.search(rf"[0-9]{{{limits.digits + 1}}}", outside):
        return f"must have numbers of at most {limits.digits} digits, but one begins with {digits[0][:20]}."
    return ""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {quote(twice)} comes twice in one object; keep one")
    return document


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{cut(number)} is not a number in JSON")
    return value


def _is_unicode(document: Any) -> bool:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _mebibytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >> 20 else f"{size} bytes"
