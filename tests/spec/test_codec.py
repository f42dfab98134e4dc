"""Canonical JSON, digests and reading of fields."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from autosync.errors import SpecError
from autosync.spec import canonical_json, digest, parse_json
from autosync.spec.codec import Noun, check_fields, read_optional, read_required


def test_equal_documents_have_one_text_whatever_the_order_of_their_fields():
    assert canonical_json({"b": 1, "a": [1.5, None]}) == canonical_json({"a": [1.5, None], "b": 1})
    assert canonical_json({"b": 1, "a": "ü"}) == '{"a":"\\u00fc","b":1}'


def test_a_digest_is_sixteen_hexadecimal_digits_and_stays_what_it_was():
    assert digest({"a": 1}) == "015abd7f5cc57a2d"


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, object()])
def test_values_that_json_cannot_represent_have_no_digest(value: object):
    with pytest.raises(SpecError, match=r"A digest needs plain, finite JSON values: .+\. Convert the value first\."):
        digest({"value": value})


def test_text_that_is_not_json_is_refused():
    with pytest.raises(SpecError, match=r"The strategy file must be JSON, but: .*line 1"):
        parse_json("{nope", "The strategy file")


def test_bytes_that_are_not_text_are_refused():
    with pytest.raises(SpecError, match="The strategy file must be JSON, but: "):
        parse_json(b"\xff\xfe\xff", "The strategy file")


def test_json_that_is_not_an_object_is_refused():
    with pytest.raises(SpecError, match=r"The strategy file must be a JSON object, not list\."):
        parse_json("[1]", "The strategy file")


def test_an_unknown_field_is_named_with_the_known_ones():
    with pytest.raises(SpecError, match=re.escape("A node has the unknown field 'c'. Known fields: a, b.")):
        check_fields({"a": 1, "c": 2}, ("a", "b"), "A node")


def test_a_document_that_is_not_an_object_is_refused():
    with pytest.raises(SpecError, match=re.escape("A node must be a JSON object, not [1].")):
        check_fields([1], ("a",), "A node")  # type: ignore[arg-type]


def test_a_missing_field_is_named_with_those_there():
    with pytest.raises(SpecError, match=re.escape("A node needs the field 'a'. It has: b, c.")):
        read_required({"c": 1, "b": 2}, "a", int, "A node")
    with pytest.raises(SpecError, match=re.escape("A node needs the field 'a'. It has: none.")):
        read_required({}, "a", int, "A node")


@pytest.mark.parametrize(("value", "kind"), [("1", int), (True, int), (True, float), (1.0, int), (None, str)])
def test_a_field_of_the_wrong_type_is_refused(value: object, kind: type):
    with pytest.raises(SpecError, match=re.escape(f"A node: 'a' must be {kind.__name__}, not {value!r}.")):
        read_required({"a": value}, "a", kind, "A node")


def test_an_optional_field_may_be_absent_or_null_but_not_wrong():
    assert read_optional({}, "a", int, "A node") is None
    assert read_optional({"a": None}, "a", int, "A node") is None
    assert read_optional({"a": 3}, "a", float, "A node") == 3.0
    with pytest.raises(SpecError, match=re.escape("A node: 'a' must be int, not 'x'.")):
        read_optional({"a": "x"}, "a", int, "A node")


KEYS = ("name", "parts", "first", "counts", "marked", "note", "said")


@dataclass(frozen=True)
class Part(Noun, what="A part"):
    length: float


@dataclass(frozen=True)
class Whole(
    Noun, what="A whole", keys=("name", "parts", "first", "counts", "marked", "note", "said"), always=("said",)
):
    name: str
    first: Part
    parts: tuple[Part, ...] = ()
    counts: Mapping[str, int] | None = None
    marked: bool = False
    note: str | None = None
    said: float | None = None


@dataclass(frozen=True)
class Settings(Noun, partial=True):
    steps: int = 3
    rates: tuple[float, ...] = (0.5,)


def test_the_json_of_a_noun_has_its_fields_in_order_and_leaves_out_what_is_plain():
    least = Whole("w", Part(2))
    assert list(least.to_json().items()) == [("name", "w"), ("parts", []), ("first", {"length": 2.0}), ("said", None)]
    full = Whole("w", Part(2.0), (Part(1.0), Part(3.0)), {"a": 1}, True, "", 0.0)
    assert tuple(full.to_json()) == KEYS
    for noun in (least, full):
        assert Whole.from_json(parse_json(canonical_json(noun.to_json()), "A whole")) == noun


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": None}, "A whole: 'name' must be str, not None."),
        ({"first": [1]}, "A whole: 'first' must be dict, not [1]."),
        ({"first": {"length": "x"}}, "A part: 'length' must be float, not 'x'."),
        ({"parts": {}}, "A whole: 'parts' must be list, not {}."),
        ({"parts": [1]}, "A part must be a JSON object, not 1."),
        ({"counts": {"a": 1.5}}, "A whole's counts: 'a' must be int, not 1.5."),
        ({"marked": 1}, "A whole: 'marked' must be bool, not 1."),
        ({"more": 1}, "A whole has the unknown field 'more'. Known fields: name, parts, first, counts, marked,"),
    ],
)
def test_a_noun_of_a_wrong_document_is_refused(changes: dict[str, object], message: str):
    document = {"name": "w", "parts": [], "first": {"length": 1}}
    assert Whole.from_json(document) == Whole("w", Part(1.0))
    with pytest.raises(SpecError, match=re.escape(message)):
        Whole.from_json(document | changes)


def test_a_field_with_a_default_is_needed_unless_documents_are_partial():
    with pytest.raises(SpecError, match=re.escape("A whole needs the field 'parts'. It has: first, name.")):
        Whole.from_json({"name": "w", "first": {"length": 1}})
    assert Settings.from_json({"rates": [1]}) == Settings(3, (1.0,))
    with pytest.raises(SpecError, match=re.escape("Settings: 'steps' must be int, not None.")):
        Settings.from_json({"steps": None})
