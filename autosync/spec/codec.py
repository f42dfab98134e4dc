"""JSON of nouns, which follows from their fields; canonical JSON, whose digest is a value's identity."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from autosync.errors import SpecError
from autosync.spec.quoting import listed, quoted

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


N = TypeVar("N", bound="Noun")


class Noun:
    """What frozen dataclasses have in common whose JSON has their fields, in their order, checked by their types.

    A field is a text, a number, truth, something with `to_json` and `from_json`, or a tuple or named mapping of one of
    these. One that may be None, or is False by default, is left out where it is, unless it is written `always`, and it
    may be missing; from a `partial` document so may whatever has a default. Errors call the noun `what`.
    """

    _what: ClassVar[str]
    _keys: ClassVar[tuple[str, ...]]
    _always: ClassVar[tuple[str, ...]]
    _partial: ClassVar[bool]

    def __init_subclass__(
        cls, what: str = "", keys: tuple[str, ...] = (), always: tuple[str, ...] = (), partial: bool = False
    ) -> None:
        """`keys` are the fields in another order than they are declared in."""
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
        """The noun that `to_json` described. Raises `SpecError`."""
        parts, what, values = _parts(cls), cls._what, {}  # type: ignore[arg-type]  # a class is hashable
        known_fields(document, tuple(part.name for part in parts), what)
        for name, read, _, may_be_null, _, may_be_missing in parts:
            if (value := document.get(name)) is None and may_be_null:
                continue
            if name in document:
                values[name] = read(value, name, what)
            elif not may_be_missing:
                required(document, name, object, what)
        return cls(**values)


class _Part(NamedTuple):
    """A field of a noun: how its value is read (with names for errors) and written (None: as it is), and when not."""

    name: str
    read: Callable[[Any, str, str], Any]
    write: Callable[[Any], Any] | None
    may_be_null: bool
    is_left_out: bool
    may_be_missing: bool


@cache
def _parts(noun: type[Noun]) -> tuple[_Part, ...]:
    hints, parts = get_type_hints(noun), {}
    for each in fields(noun):  # type: ignore[arg-type]
        kind, plain = hints[each.name], each.default is False
        if NoneType in get_args(kind):
            kind, plain = next(one for one in get_args(kind) if one is not NoneType), True
        missing = noun._partial and not each.default is each.default_factory is MISSING
        left_out = plain and each.name not in noun._always
        parts[each.name] = _Part(each.name, *_ways(kind), plain, left_out, missing)
    return tuple(parts[name] for name in noun._keys or parts)


def _ways(kind: Any) -> tuple[Callable[[Any, str, str], Any], Callable[[Any], Any] | None]:
    """How a field of type `kind` is read and written."""
    origin = get_origin(kind)
    inner = get_args(kind)[0 if origin is tuple else -1] if origin else kind
    noun = hasattr(inner, "from_json")

    def one(value: Any, field: str, what: str) -> Any:
        if noun:
            return inner.from_json(value)
        return value if inner is Any else _checked(value, field, inner, what)

    if origin is tuple:
        return (
            lambda value, field, what: tuple(one(each, field, what) for each in _checked(value, field, list, what)),
            (lambda value: [each.to_json() for each in value]) if noun else list,
        )
    if origin:
        return (
            lambda value, field, what: {
                name: one(each, name, f"{what}'s {field}") for name, each in _checked(value, field, dict, what).items()
            },
            (lambda value: {name: each.to_json() for name, each in value.items()}) if noun else dict,
        )
    if noun:
        return lambda value, field, what: inner.from_json(_checked(value, field, dict, what)), inner.to_json
    return one, float if kind is float else None


LAST_START = 253_402_214_400.0
"""The last day of the year 9999 in seconds since 1970: no calendar here goes further."""


def check_start(started_at: float) -> None:
    """Raise `SpecError` unless a record's start is a date, in seconds since 1970."""
    if not 0 <= started_at < LAST_START:
        raise SpecError(f"A record's start is finite, in seconds from 1970 to the year 9999, not {quoted(started_at)}.")
