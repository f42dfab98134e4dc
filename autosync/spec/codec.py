"""JSON of nouns, derived from their fields; canonical JSON, whose digest identifies a value."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from autosync.errors import SpecError
from autosync.spec.quoting import quote, shorten_list

DIGEST_LENGTH = 16


def canonical_json(document: Any) -> str:
    """The single JSON text of `document`: sorted keys, no spaces, ASCII, finite numbers only.

    Raises `SpecError` if the document holds a value that JSON cannot represent exactly (NaN, a set, an object).
    """
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SpecError(f"A digest needs plain, finite JSON values: {error}. Convert the value first.") from None


def digest(document: Any) -> str:
    """First 16 hexadecimal digits (64 bits) of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()[:DIGEST_LENGTH]


T = TypeVar("T")


def check_fields(document: Mapping[str, Any], allowed: tuple[str, ...], what: str) -> None:
    """Raise `SpecError` if `document` is not an object or has a field that is not in `allowed`."""
    if not isinstance(document, Mapping):
        raise SpecError(f"{what} must be a JSON object, not {quote(document)}.")
    unknown = sorted(set(document) - set(allowed))
    if unknown:
        raise SpecError(f"{what} has the unknown field {quote(unknown[0])}. Known fields: {', '.join(allowed)}.")


def read_required(document: Mapping[str, Any], field: str, kind: type[T], what: str) -> T:
    """Return `document[field]`, checked to be a `kind` (an int passes for a float; a bool is never a number)."""
    if field not in document:
        raise SpecError(f"{what} needs the field {quote(field)}. It has: {shorten_list(sorted(document))}.")
    return _check_type(document[field], field, kind, what)


def read_optional(document: Mapping[str, Any], field: str, kind: type[T], what: str) -> T | None:
    """Return `document[field]` as `read_required` does, or None if the field is absent or null."""
    value = document.get(field)
    return None if value is None else _check_type(value, field, kind, what)


def read_list(document: Mapping[str, Any], field: str, kind: type[T], what: str) -> tuple[T, ...]:
    """Return the list `document[field]` as a tuple, every entry checked to be a `kind` as `read_required` does."""
    return tuple(_check_type(entry, field, kind, what) for entry in read_required(document, field, list, what))


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first of `names` that occurred before; None if all are different."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _check_type(value: Any, field: str, kind: type[T], what: str) -> T:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)  # type: ignore[return-value]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise SpecError(f"{what}: {quote(field)} must be {kind.__name__}, not {quote(value)}.")
    return value


N = TypeVar("N", bound="Noun")


class Noun:
    """Base of frozen dataclasses whose JSON has their fields in order, checked by the fields' types.

    A field is a text, a number, a bool, a class with `to_json` and `from_json`, or a tuple or a mapping from names of
    these. JSON omits a field that is None, or that is False by default, unless the field is listed in `always`. When
    read, such a field may be missing. If the noun is `partial`, every field with a default may be missing. `what` is
    the noun's name in errors.
    """

    _what: ClassVar[str]
    _keys: ClassVar[tuple[str, ...]]
    _always: ClassVar[tuple[str, ...]]
    _partial: ClassVar[bool]

    def __init_subclass__(
        cls, what: str = "", keys: tuple[str, ...] = (), always: tuple[str, ...] = (), partial: bool = False
    ) -> None:
        """`keys`: the order of fields in JSON, if it differs from the order of their declaration."""
        cls._what, cls._keys, cls._always, cls._partial = what or cls.__name__, keys, always, partial

    def to_json(self) -> dict[str, Any]:
        document = {}
        for name, _, write, _, is_left_out, _ in _parts(type(self)):  # type: ignore[arg-type]  # a class is hashable
            value = getattr(self, name)
            if value is not None and value is not False:
                document[name] = write(value) if write else value
            elif not is_left_out:
                document[name] = value
        return document

    @classmethod
    def from_json(cls: type[N], document: Mapping[str, Any]) -> N:
        """Return the noun that `to_json` described. Raises `SpecError`."""
        parts, what, values = _parts(cls), cls._what, {}  # type: ignore[arg-type]  # a class is hashable
        check_fields(document, tuple(part.name for part in parts), what)
        for name, read, _, may_be_null, _, may_be_missing in parts:
            if (value := document.get(name)) is None and may_be_null:
                continue
            if name in document:
                values[name] = read(value, name, what)
            elif not may_be_missing:
                read_required(document, name, object, what)
        return cls(**values)


class _Part(NamedTuple):
    """A field of a noun, and how JSON represents the field."""

    name: str
    read: Callable[[Any, str, str], Any]
    """Reads a JSON value; the two texts name the field and the noun in errors."""
    write: Callable[[Any], Any] | None
    """Makes the JSON value; None if the value is written unchanged."""
    may_be_null: bool
    is_left_out: bool
    """Whether JSON omits the field if its value is None or False."""
    may_be_missing: bool


@cache
def _parts(noun: type[Noun]) -> tuple[_Part, ...]:
    hints, parts = get_type_hints(noun), {}
    for field in fields(noun):  # type: ignore[arg-type]
        kind, plain = hints[field.name], field.default is False
        if NoneType in get_args(kind):
            kind, plain = next(option for option in get_args(kind) if option is not NoneType), True
        missing = noun._partial and not field.default is field.default_factory is MISSING
        left_out = plain and field.name not in noun._always
        parts[field.name] = _Part(field.name, *_reader_and_writer(kind), plain, left_out, missing)
    return tuple(parts[name] for name in noun._keys or parts)


def _reader_and_writer(kind: Any) -> tuple[Callable[[Any, str, str], Any], Callable[[Any], Any] | None]:
    """The `read` and `write` functions of a field of type `kind`."""
    origin = get_origin(kind)
    inner = get_args(kind)[0 if origin is tuple else -1] if origin else kind
    noun = hasattr(inner, "from_json")

    def read_value(value: Any, field: str, what: str) -> Any:
        if noun:
            return inner.from_json(value)
        return value if inner is Any else _check_type(value, field, inner, what)

    if origin is tuple:
        return (
            lambda value, field, what: tuple(
                read_value(entry, field, what) for entry in _check_type(value, field, list, what)
            ),
            (lambda value: [entry.to_json() for entry in value]) if noun else list,
        )
    if origin:
        return (
            lambda value, field, what: {
                name: read_value(entry, name, f"{what}'s {field}")
                for name, entry in _check_type(value, field, dict, what).items()
            },
            (lambda value: {name: entry.to_json() for name, entry in value.items()}) if noun else dict,
        )
    if noun:
        return lambda value, field, what: inner.from_json(_check_type(value, field, dict, what)), inner.to_json
    return read_value, float if kind is float else None


LAST_START = 253_402_214_400.0
"""The last day of the year 9999 in seconds since 1970, where Python's calendar ends."""


def check_start(started_at: float) -> None:
    """Raise `SpecError` unless a record's start is a date, in seconds since 1970."""
    if not 0 <= started_at < LAST_START:
        raise SpecError(f"A record's start is finite, in seconds from 1970 to the year 9999, not {quote(started_at)}.")
