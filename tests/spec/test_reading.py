"""JSON from outside: read within limits, and refused beyond them in a sentence of bounded length."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from autosync.errors import SpecError
from autosync.spec import ReadLimits, parse_json, read_json

WHAT = "The strategy file"
DEEP = 100_000


def refusal(text: str | bytes, **options: object) -> str:
    with pytest.raises(SpecError) as caught:
        parse_json(text, WHAT, **options)  # type: ignore[arg-type]
    told = str(caught.value)
    assert told.startswith(WHAT)
    assert len(told) < 250, "a message quotes at most 80 characters"
    return told


@pytest.mark.parametrize(
    "text", ["[" * DEEP, '{"a":' * DEEP, '{"a":' + "[" * DEEP + "]" * DEEP + "}", '[{"b":' * DEEP], ids=len
)
def test_deeply_nested_brackets_are_refused_before_they_are_followed(text: str):
    assert "at most 64 nested brackets, but has " in refusal(text)


def test_brackets_and_digits_in_a_text_do_not_count():
    document = parse_json('{"a": "' + "[" * 200 + r"\\\"" + "9" * 200 + '"}', WHAT)
    assert document == {"a": "[" * 200 + '\\"' + "9" * 200}


def test_a_text_that_never_ends_and_quotes_beyond_number_are_refused():
    assert "Unterminated string" in refusal('{"a": "' + r"\n" * 100_000)
    assert "at most 1000000 values" in refusal('"' * 3_000_000)
    assert "must be JSON" in refusal("\\" * 3_000_000)


@pytest.mark.parametrize("text", ["{},", '"":0,'])
def test_more_values_than_memory_is_made_for_are_refused(text: str):
    assert "at most 5 values" in refusal('{"a":[' + text * 9 + "0]}", limits=ReadLimits(1000, values=5))


def test_a_number_of_ten_million_digits_is_refused():
    assert refusal('{"rate": ' + "9" * 10_000_000 + "}").endswith(
        "must have numbers of at most 64 digits, but one begins with 99999999999999999999."
    )
    assert "digits" in refusal('{"rate": 0.' + "9" * 65 + "}")
    assert parse_json('{"rate": ' + "9" * 64 + "}", WHAT)["rate"] == int("9" * 64)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1E+400"])
def test_numbers_that_are_not_finite_are_refused_unless_allowed(number: str):
    assert f"{number} is not a number in JSON" in refusal(f'{{"a": {number}}}')
    assert not math.isfinite(parse_json(f'{{"a": {number}}}', WHAT, finite=False)["a"])
    assert parse_json('{"a": 1e300, "b": 1e-999}', WHAT) == {"a": 1e300, "b": 0.0}


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '{"b": [{"a": 1, "c": 2, "a": 3}]}', r'{"a": 1, "\u0061": 2}'])
def test_a_key_that_comes_twice_is_refused(text: str):
    assert refusal(text) == f"{WHAT} must be JSON, but: key 'a' comes twice in one object; keep one."


def test_a_refusal_of_a_key_of_ten_megabytes_quotes_one_line():
    key = "k" * 10_000_000
    assert "key 'kkkk" in refusal(f'{{"{key[:7_000_000]}": 1, "{key[:7_000_000]}": 2}}')


def test_half_a_character_is_refused_and_a_whole_one_is_not():
    assert "lone surrogate" in refusal(r'{"a": "\ud83d"}')
    assert "lone surrogate" in refusal(r'{"\uDE00": 1}')
    assert parse_json(r'{"a": "\ud83d\ude00"}', WHAT) == {"a": "\U0001f600"}


def test_a_file_is_not_read_further_than_its_limit(tmp_path: Path):
    file = tmp_path / "large.json"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)  # a terabyte of holes
    with pytest.raises(SpecError, match=r"The file must have at most 16 MiB, but has more; name another file\."):
        read_json(file, "The file")
    assert "at most 10 bytes" in refusal('{"a": 1234567}', limits=ReadLimits(10, 5))


def test_text_with_a_byte_order_mark_is_read():
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        assert parse_json('{"a": "ü"}'.encode(encoding), WHAT) == {"a": "ü"}
