"""YAML from outside: read within limits, and refused beyond them in a sentence of bounded length."""

from __future__ import annotations

import time

import pytest

from autosync.errors import SpecError
from autosync.spec import ReadLimits
from autosync.yaml_text import parse_yaml

WHAT = "The file"

LAUGHS = "a: &a [x, x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}, *{old}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [*{old}, *{old}]}}\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)


def refusal(text: str | bytes, limits: ReadLimits | None = None) -> str:
    data = text.encode() if isinstance(text, str) else text
    begin = time.monotonic()
    with pytest.raises(SpecError) as caught:
        parse_yaml(data, WHAT, *([limits] if limits else []))
    assert time.monotonic() - begin < 10, "a hang, not a slow machine"
    told = str(caught.value)
    assert told.startswith(WHAT)
    assert len(told) < 250, "a message quotes at most 80 characters"
    assert "\n" not in told
    return told


def test_yaml_with_the_values_of_json_is_read():
    text = b"nodes:\n- {count: 2, rate: 1.5, name: a, on: yes, none: ~, day: 2001-99-99, text: '9'}"
    node = {"count": 2, "rate": 1.5, "name": "a", True: True, "none": None, "day": "2001-99-99", "text": "9"}
    assert parse_yaml(text, WHAT) == {"nodes": [node]}


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "? " * 100_000], ids=repr)
def test_deeply_nested_values_are_refused(text: str):
    assert "at most 64 nested values are allowed" in refusal(text)


@pytest.mark.parametrize("text", [LAUGHS, MERGED, "&a [*a]", "*a", f"&{'a' * 500_000} x"], ids=len)
def test_anchors_and_aliases_are_refused_before_they_multiply(text: str):
    assert "anchors and aliases are not read" in refusal(text)


def test_merge_keys_are_refused():
    assert "line 1: merge keys are not read" in refusal("<<: {a: 1}\nb: 2")


def test_two_million_nodes_are_refused():
    assert refusal("[" + "a," * 500_000 + "]").endswith("at most 100000 values, but here are more.")
    assert "must have at most 1024 KiB" in refusal("[" + "a," * 2_000_000 + "]")
    assert "at most 3 values" in refusal("[1, 2, 3]", ReadLimits(100, 3))


@pytest.mark.parametrize("text", ["a: 1\nb: 2\n'a': 3", "b: [{a: 1, a: 2}]", f"{'k' * 1000}: 1\n" * 2], ids=len)
def test_a_key_that_comes_twice_is_refused(text: str):
    assert "comes twice; keep one" in refusal(text)


def test_keys_that_are_read_as_one_value_are_refused():
    told = "The file, line 2: YAML reads the keys 0x1 and 1 as the same value; quote them: '0x1', '1'."
    assert refusal("0x1: a\n1: b") == told


@pytest.mark.parametrize("number", ["9" * 100_000, "0x" + "f" * 100_000, "1:" * 1000 + "1", "1." + "0" * 70], ids=len)
def test_a_number_of_many_digits_is_refused(number: str):
    assert "line 2: a number has at most 64 digits" in refusal(f"a: 1\nrate: {number}")


@pytest.mark.parametrize("number", ["0x_", "0b_"])
def test_a_number_of_yaml_that_python_rejects_is_refused(number: str):
    assert f"'{number}' is no number" in refusal(f"rate: {number}")


@pytest.mark.parametrize(
    "text", ["!!python/object/apply:os.system [ls]", "!!int abc", "!!timestamp x", f"!{'x' * 9999} a"], ids=len
)
def test_tags_are_refused(text: str):
    assert "tags are not read" in refusal(text)


@pytest.mark.parametrize(
    "text", [b"\xff\xfe\xff", b"a: \x00", "a: 'x", "a: 1\n---\nb: 2", "a:\t- b", "%YAML 9.9\n---\na"], ids=repr
)
def test_invalid_yaml_is_refused_without_an_excerpt(text: str | bytes):
    assert "must be YAML, but: " in refusal(text)


def test_a_key_that_is_no_text_is_refused():
    assert "line 1: a key must be a text" in refusal("? [a]\n: 1")
