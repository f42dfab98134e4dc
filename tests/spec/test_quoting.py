"""What messages show of values from outside."""

from __future__ import annotations

import pytest

from autosync.spec import cut, listed, quoted
from autosync.spec.quoting import MOST_QUOTED


def test_what_is_short_is_quoted_whole():
    assert quoted("a\nb") == r"'a\nb'"
    assert quoted([1, {"a": None}]) == "[1, {'a': None}]"


@pytest.mark.parametrize("value", ["x" * 10_000_000, ["y"] * 1000, {"k" * 1000: 1}, 10**80, 1 << 20_000], ids=type)
def test_what_is_long_is_quoted_by_its_beginning(value: object):
    assert len(quoted(value)) <= MOST_QUOTED


def test_a_cut_text_has_one_line():
    assert cut("one\n  two") == "one two"
    assert cut("word " * 1000).endswith("...")
    assert len(cut(" " * 1000 + "x")) <= MOST_QUOTED


def test_of_many_names_some_are_listed_and_the_rest_is_counted():
    assert listed([]) == "none"
    assert listed(["a", "b"]) == "a, b"
    names = [f"node{index}" for index in range(1000)]
    assert listed(names).startswith("node0, node1, ")
    assert listed(names).endswith(" and 989 more")
    assert len(listed(["z" * 10_000, "a"])) < 100
