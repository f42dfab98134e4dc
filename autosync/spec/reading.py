"""JSON from outside, read within limits: reading takes seconds for any file, and gives a document or a sentence."""

import json
import math
import re
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from autosync.errors import SpecError
from autosync.files import opened_to_read
from autosync.spec.quoting import cut, quoted


@dataclass(frozen=True)
class Limits:
    """The most that a document may have: bytes, values (its strings, or all that commas and brackets part), brackets in
    each other, digits in a row."""

    size: int
    values: int
    depth: int = 64
    digits: int = 64


DOCUMENT = Limits(size=16 << 20, values=1_000_000)
"""The limits of a strategy, a cluster or a result. A model of five thousand variables has a strategy of 1 MB."""

STATE = Limits(size=128 << 20, values=5_000_000)
"""The limits of a search's state: every record with its strategy. A thousand trials of a model with five hundred
variables make 25 MB and three million values."""

BEYOND_FLOAT = re.compile(r"[eE]\+?\d{3}")
"""Only a number with such an exponent can be read as an infinity."""

LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(
    file: Path, what: str, finite: bool = True, limits: Limits = DOCUMENT, through_links: bool = True
) -> dict[str, Any]:
    """The JSON object in `file`, as `parse_json` reads it. Raises `SpecError`, and `OSError` as `read_bytes` does."""
    return parse_json(read_bytes(file, what, limits.size, through_links), what, finite, limits)


def read_bytes(file: Path, what: str, most: int = DOCUMENT.size, through_links: bool = True) -> bytes:
    """The content of a regular file, at most `most` bytes; `through_links=False` refuses a link.

    Raises `SpecError` for a larger file, and `OSError` for one that is missing, no regular file or a refused link.
    """
    with opened_to_read(file, through_links=through_links) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise SpecError(f"{what} must have at most {_mebibytes(most)}, but has more; name another file.")
    return data


def parse_json(text: str | bytes, what: str, finite: bool = True, limits: Limits = DOCUMENT) -> dict[str, Any]:
    """The JSON object in `text`; `what` names it in the error.

    Raises `SpecError` for what is no JSON, for a key that an object has twice, and for more than `limits`; if `finite`
    for NaN and infinities too, which JSON does not know and Python writes all the same.
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


def _beyond(text: str, limits: Limits) -> str:
    """How `text` exceeds `limits`, found before anything is built of it; empty when it does not.

    Up to where it stops being JSON, it is taken apart as JSON is, and no parser gets further than that.
    """
    strings = text.count('"') // 2
    outside = "".join(text.replace(r"\\", "").replace(r"\"", "").split('"')[::2]) if strings <= limits.values else ""
    values = max(strings, 1 + sum(map(outside.count, ",[{")))
    if values > limits.values:
        return f"must have at most {limits.values} values, but has about {values}."
    steps = (1 if each in "[{" else -1 for each in re.findall(r"[][{}]", outside))
    if (depth := max(accumulate(steps), default=0)) > limits.depth:
        return f"must have at most {limits.depth} brackets in each other, but has {depth}."
    if digits := re.search(rf"[0-9]{{{limits.digits + 1}}}", outside):
        return f"must have numbers of at most {limits.digits} digits, but one begins with {digits[0][:20]}."
    return ""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        met: set[str] = set()
        twice = next(key for key, _ in pairs if key in met or met.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {quoted(twice)} comes twice in one object; keep one")
    return document


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{cut(number)} is no number that JSON knows")
    return value


def _is_unicode(document: Any) -> bool:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _mebibytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >> 20 else f"{size} bytes"
