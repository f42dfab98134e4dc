"""Canonical JSON, whose digest is a value's identity; and fields of JSON objects, checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from autosync.errors import SpecError
from autosync.spec.quoting import listed, quoted

__all__ = ["canonical_json", "digest", "every", "first_repeated", "known_fields", "optional", "required"]

DIGEST_LENGTH = 16


def canonical_json(document: Any) -> str:
    """The single JSON text of `document`: sorted keys, no spaces, ASCII, finite numbers only.

    Raises `SpecError` when the document holds something JSON cannot say exactly (NaN, a set, an object).
    """
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SpecError(f"A digest needs plain, finite JSON values: {error}. Convert the value first.") from None


def digest(document: Any) -> str:
    """First 16 hexadecimal digits (64 bits) of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()[:DIGEST_LENGTH]


T = TypeVar("T")


def known_fields(document: Mapping[str, Any], allowed: tuple[str, ...], what: str) -> None:
    """Raise `SpecError` when `document` is not an object or has a field that is not in `allowed`."""
    if not isinstance(document, Mapping):
        raise SpecError(f"{what} must be a JSON object, not {quoted(document)}.")
    unknown = sorted(set(document) - set(allowed))
    if unknown:
        raise SpecError(f"{what} has the unknown field {quoted(unknown[0])}. Known fields: {', '.join(allowed)}.")


def required(document: Mapping[str, Any], field: str, kind: type[T], what: str) -> T:
    """`document[field]`, checked to be a `kind` (an int is taken for a float; a bool is never a number)."""
    if field not in document:
        raise SpecError(f"{what} needs the field {quoted(field)}. It has: {listed(sorted(document))}.")
    return _checked(document[field], field, kind, what)


def optional(document: Mapping[str, Any], field: str, kind: type[T], what: str) -> T | None:
    """`document[field]` as `required` reads it, or None when it is absent or null."""
    value = document.get(field)
    return None if value is None else _checked(value, field, kind, what)


def every(document: Mapping[str, Any], field: str, kind: type[T], what: str) -> tuple[T, ...]:
    """`document[field]`, a list, each of which is checked as `required` does."""
    return tuple(_checked(each, field, kind, what) for each in required(document, field, list, what))


def first_repeated(names: Iterable[str]) -> str | None:
    """The first of `names` that was there before; None when all are different."""
    met: set[str] = set()
    for name in names:
        if name in met:
            return name
        met.add(name)
    return None


def _checked(value: Any, field: str, kind: type[T], what: str) -> T:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)  # type: ignore[return-value]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise SpecError(f"{what}: {quoted(field)} must be {kind.__name__}, not {quoted(value)}.")
    return value
